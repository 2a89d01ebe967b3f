#include "loco/exchange/sparse_all_gather.h"

#include <functional>
#include <future>
#include <vector>

#include "loco/exchange/payload.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kSegmentsAtATime = 3;           // one encoded, one on its way, one added up
constexpr uint64_t kWorthOverlapping = 1'000'000;  // entries: tens of milliseconds of work

}  // namespace

Status SparseAllGather::Fold(std::vector<Bytes> payloads, const AgreedRound& round, uint64_t begin,
                             std::span<float> sum) const {
  PULSE_ASSIGN_OR_RETURN(const auto updates,
                         DecodePayloads({kernels_, round}, std::move(payloads), round.contributes,
                                        begin, begin + sum.size()));
  FoldUpdates(sites_, round.contributes, kernels_.reduce, updates, sum);
  return OkStatus();
}

StatusOr<std::vector<uint64_t>> SparseAllGather::Borders(const Contribution& mine,
                                                         const AgreedRound& round,
                                                         uint64_t elements, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(auto borders, AgreeOnSegments(communicator_, mine, round, elements, 0,
                                                       memory_bytes_ / kSegmentsAtATime, deadline));
  if (round.total_entries() >= kWorthOverlapping) borders = CutFiner(borders, segments_);
  return borders;
}

Status SparseAllGather::Sum(const Contribution& mine, const AgreedRound& round,
                            std::span<float> sum, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto borders, Borders(mine, round, sum.size(), deadline));
  return SumSegments(mine, round, borders, sum, deadline);
}

// While one segment is on its way, the next is encoded and the last one added up, on threads of
// their own: one that works and one that mostly waits for the network share the cores well. Only
// this thread calls the communicator.
Status SparseAllGather::SumSegments(const Contribution& mine, const AgreedRound& round,
                                    const std::vector<uint64_t>& borders, std::span<float> sum,
                                    Deadline deadline) {
  traffic_ = {};
  if (borders.size() < 2) return OkStatus();
  const size_t segments = borders.size() - 1;
  const auto policy = segments > 1 ? std::launch::async : std::launch::deferred;
  std::future<Bytes> encoding;
  std::future<Status> folding;
  const auto encode = [&](size_t i) {
    return EncodePayload({kernels_, round}, mine, borders[i], borders[i + 1]);
  };
  Bytes payload = encode(0);
  // Returning early waits for both threads: their futures' destructors do.
  for (size_t i = 0; i < segments; ++i) {
    if (i + 1 < segments) encoding = std::async(policy, encode, i + 1);
    std::vector<Bytes> payloads;
    PULSE_RETURN_IF_ERROR(communicator_.AllGather(payload, payloads, deadline));
    traffic_.contribution += payload.size();
    traffic_.sent += payload.size() * (payloads.size() - 1);
    traffic_.received += BytesOfOthers(payloads, communicator_.rank());
    if (folding.valid()) PULSE_RETURN_IF_ERROR(folding.get());
    folding =
        std::async(policy, &SparseAllGather::Fold, this, std::move(payloads), std::cref(round),
                   borders[i], sum.subspan(borders[i], borders[i + 1] - borders[i]));
    if (encoding.valid()) payload = encoding.get();
  }
  return folding.get();
}

}  // namespace pulse::loco
