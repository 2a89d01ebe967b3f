#include "loco/exchange/adaptive.h"

#include <algorithm>
#include <utility>

#include "loco/exchange/dense.h"
#include "loco/exchange/owner_partitioned.h"
#include "loco/exchange/site_merged.h"
#include "loco/exchange/sparse_all_gather.h"

namespace pulse::loco {

std::unique_ptr<Exchange> MakeExchange(ExchangeKind kind, Communicator& communicator,
                                       const kernels::KernelTable& kernels, Sites sites,
                                       uint64_t memory_bytes, uint64_t segments) {
  switch (kind) {
    case ExchangeKind::kDense:
      return std::make_unique<DenseExchange>(communicator, kernels, std::move(sites), memory_bytes);
    case ExchangeKind::kOwnerPartitioned:
      return std::make_unique<OwnerPartitioned>(communicator, kernels, std::move(sites),
                                                memory_bytes, segments);
    case ExchangeKind::kSiteMerged:
      return std::make_unique<SiteMerged>(communicator, kernels, std::move(sites), memory_bytes,
                                          segments);
    case ExchangeKind::kSparseAllGather:
    case ExchangeKind::kAuto:
      break;
  }
  return std::make_unique<SparseAllGather>(communicator, kernels, std::move(sites), memory_bytes,
                                           segments);
}

AdaptiveExchange::AdaptiveExchange(Communicator& communicator, const kernels::KernelTable& kernels,
                                   AdaptiveOptions options)
    : communicator_(communicator), kernels_(kernels), options_(std::move(options)) {}

Exchange& AdaptiveExchange::Algorithm(ExchangeKind kind) {
  auto& algorithm = algorithms_[static_cast<size_t>(kind)];
  if (algorithm == nullptr) {
    algorithm = MakeExchange(kind, communicator_, kernels_, options_.sites, options_.memory_bytes);
  }
  return *algorithm;
}

uint64_t AdaptiveExchange::ExpectedBytes(uint64_t entries) const {
  return static_cast<uint64_t>(static_cast<double>(entries) * entry_bytes_);
}

ExchangeKind AdaptiveExchange::Choose(uint64_t elements, const AgreedRound& round,
                                      std::span<const uint64_t> payload_bytes) {
  const ChoiceFacts facts{.elements = elements,
                          .entries = round.entries,
                          .payload_bytes = payload_bytes,
                          .union_share = union_share_};
  estimate_ = options_.kind == ExchangeKind::kAuto
                  ? ChooseExchange(facts, options_.sites, links_)
                  : EstimateExchange(options_.kind, facts, options_.sites, links_);
  return estimate_.kind;
}

void AdaptiveExchange::Note(const Traffic& traffic, uint64_t entries, uint64_t total_entries,
                            uint64_t nonzero) {
  traffic_ = traffic;
  if (entries > 0 && estimate_.kind != ExchangeKind::kDense) {
    entry_bytes_ = static_cast<double>(traffic_.contribution) / static_cast<double>(entries);
  }
  if (options_.kind == ExchangeKind::kAuto && total_entries > 0) {
    const double touched = static_cast<double>(std::max<uint64_t>(nonzero, 1));
    union_share_ = std::min(touched / static_cast<double>(total_entries), 1.0);
  }
}

Status AdaptiveExchange::Sum(const Contribution& mine, const AgreedRound& round,
                             std::span<const uint64_t> payload_bytes, std::span<float> sum,
                             Deadline deadline) {
  Exchange& algorithm = Algorithm(Choose(sum.size(), round, payload_bytes));
  PULSE_RETURN_IF_ERROR(algorithm.Sum(mine, round, sum, deadline));
  Note(algorithm.traffic(), mine.entries(), round.total_entries(),
       CountsNonZero(round) ? CountNonZero(sum) : 0);
  return OkStatus();
}

void AdaptiveExchange::Learn(double seconds) {
  links_ = pulse::loco::Learn(links_, estimate_, seconds);
}

}  // namespace pulse::loco
