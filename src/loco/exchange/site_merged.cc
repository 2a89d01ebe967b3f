#include "loco/exchange/site_merged.h"

#include <algorithm>
#include <utility>

#include "loco/exchange/partial_sum.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {

SiteMerged::SiteMerged(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                       uint64_t memory_bytes)
    : communicator_(communicator),
      kernels_(kernels),
      sites_(std::move(sites)),
      memory_bytes_(memory_bytes),
      me_(static_cast<size_t>(communicator.rank())) {
  while (std::count(sites_[my_site_].begin(), sites_[my_site_].end(), me_) == 0) ++my_site_;
}

Status SiteMerged::Send(ByteView message, std::span<const size_t> to, std::vector<Bytes>& received,
                        Deadline deadline) {
  std::vector<ByteView> messages(static_cast<size_t>(communicator_.size()));
  for (const size_t r : to) {
    messages[r] = message;
    if (r != me_) traffic_.sent += message.size();
  }
  PULSE_RETURN_IF_ERROR(communicator_.AllToAll(messages, received, deadline));
  traffic_.received += BytesOfOthers(received, communicator_.rank());
  return OkStatus();
}

Status SiteMerged::SumSite(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                           std::span<float> sum, Deadline deadline) {
  const size_t leader = LeaderOf(my_site_);
  const Bytes payload = EncodePayload({kernels_, round}, mine, begin, begin + sum.size());
  traffic_.contribution += payload.size();
  std::vector<Bytes> payloads;
  PULSE_RETURN_IF_ERROR(Send(payload, {&leader, 1}, payloads, deadline));
  if (!IsLeader()) return OkStatus();
  std::vector<uint8_t> of_site(round.contributes.size());
  for (const uint32_t k : sites_[my_site_]) of_site[k] = round.contributes[k];
  PULSE_ASSIGN_OR_RETURN(const auto updates, DecodePayloads({kernels_, round}, std::move(payloads),
                                                            of_site, begin, begin + sum.size()));
  FoldUpdates({sites_[my_site_]}, of_site, kernels_.reduce, updates, sum);
  return OkStatus();
}

Status SiteMerged::SumSites(const PayloadCoding& coding, uint64_t begin, std::span<float> sum,
                            Deadline deadline) {
  Bytes mine;
  std::vector<size_t> leaders;
  if (IsLeader()) {
    mine = EncodePartialSum(coding, begin, sum);
    for (size_t s = 0; s < sites_.size(); ++s) leaders.push_back(LeaderOf(s));
  }
  std::vector<Bytes> sums;
  PULSE_RETURN_IF_ERROR(Send(mine, leaders, sums, deadline));
  if (!IsLeader()) return OkStatus();
  std::fill(sum.begin(), sum.end(), 0.0f);
  scratch_.resize(sum.size());
  for (size_t s = 0; s < sites_.size(); ++s) {
    PULSE_RETURN_IF_ERROR(Annotate(DecodePartialSum(coding, begin, sums[LeaderOf(s)], scratch_),
                                   fmt::format("sum of site {}", s)));
    kernels_.reduce.add_dense(sum, scratch_);
    sums[LeaderOf(s)] = Bytes();
  }
  return OkStatus();
}

Status SiteMerged::HandRound(const PayloadCoding& coding, uint64_t begin, std::span<float> sum,
                             Deadline deadline) {
  Bytes total;
  std::vector<size_t> members;
  if (IsLeader() && sites_[my_site_].size() > 1) {
    total = EncodePartialSum(coding, begin, sum);
    members.assign(sites_[my_site_].begin() + 1, sites_[my_site_].end());
  }
  std::vector<Bytes> totals;
  PULSE_RETURN_IF_ERROR(Send(total, members, totals, deadline));
  if (IsLeader()) return OkStatus();
  return Annotate(DecodePartialSum(coding, begin, totals[LeaderOf(my_site_)], sum),
                  "sum of the site's leader");
}

Status SiteMerged::SumSegment(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                              std::span<float> sum, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(SumSite(mine, round, begin, sum, deadline));
  // Which steps there are is the same on all ranks.
  const PayloadCoding coding(kernels_, round);
  if (sites_.size() > 1) PULSE_RETURN_IF_ERROR(SumSites(coding, begin, sum, deadline));
  return HandRound(coding, begin, sum, deadline);
}

Status SiteMerged::Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
                       Deadline deadline) {
  traffic_ = {};
  PULSE_ASSIGN_OR_RETURN(const auto borders,
                         AgreeOnSegments(communicator_, mine, round, sum.size(),
                                         kBytesPerSummedElement, memory_bytes_, deadline));
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    PULSE_RETURN_IF_ERROR(SumSegment(
        mine, round, borders[i], sum.subspan(borders[i], borders[i + 1] - borders[i]), deadline));
  }
  return OkStatus();
}

}  // namespace pulse::loco
