#include "loco/exchange/site_merged.h"

#include <algorithm>
#include <utility>

#include "loco/exchange/partial_sum.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {

SiteMerged::SiteMerged(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                       uint64_t memory_bytes, uint64_t segments)
    : communicator_(communicator),
      kernels_(kernels),
      sites_(std::move(sites)),
      memory_bytes_(memory_bytes),
      segments_(segments),
      me_(static_cast<size_t>(communicator.rank())) {
  while (std::count(sites_[my_site_].begin(), sites_[my_site_].end(), me_) == 0) ++my_site_;
}

StatusOr<Messages> SiteMerged::Send(const Messages& message, std::span<const size_t> to,
                                    Deadline deadline) {
  std::vector<ByteView> messages(static_cast<size_t>(communicator_.size()));
  for (const size_t r : to) {
    messages[r] = message.front();
    if (r != me_) traffic_.sent += message.front().size();
  }
  Messages received;
  PULSE_RETURN_IF_ERROR(communicator_.AllToAll(messages, received, deadline));
  traffic_.received += BytesOfOthers(received, communicator_.rank());
  return received;
}

Status SiteMerged::SumSite(const PayloadCoding& coding, const FoldInput& of_all, uint64_t begin,
                           std::span<float> sum) const {
  std::vector<uint8_t> of_site(of_all.contributes.size());
  for (const uint32_t k : sites_[my_site_]) of_site[k] = of_all.contributes[k];
  return FoldPayloads(coding, {sites_[my_site_]}, {of_all.payloads, of_site, me_, of_all.mine},
                      begin, sum);
}

Status SiteMerged::SumSites(const PayloadCoding& coding, Messages sums, uint64_t begin,
                            std::span<float> sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  std::vector<float> of_site(sum.size());
  for (size_t s = 0; s < sites_.size(); ++s) {
    PULSE_RETURN_IF_ERROR(Annotate(DecodePartialSum(coding, begin, sums[LeaderOf(s)], of_site),
                                   fmt::format("sum of site {}", s)));
    kernels_.reduce.add_dense(sum, of_site);
    sums[LeaderOf(s)] = Bytes();
  }
  return OkStatus();
}

Messages SiteMerged::EncodeSum(const PayloadCoding& coding, uint64_t begin,
                               std::span<const float> sum, bool wanted) const {
  return {IsLeader() && wanted ? EncodePartialSum(coding, begin, sum) : Bytes()};
}

Status SiteMerged::Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
                       Deadline deadline) {
  traffic_ = {};
  // Which stages there are is the same on all ranks.
  const bool several = sites_.size() > 1;
  PULSE_ASSIGN_OR_RETURN(
      auto borders, AgreeOnSegments(communicator_, mine, round, sum.size(), kBytesPerSummedElement,
                                    memory_bytes_ / SegmentsAtATime(several ? 3 : 2), deadline));
  if (IsWorthOverlapping(round.total_entries())) borders = CutFiner(borders, segments_);
  const auto segment = [&](size_t i) {
    return sum.subspan(borders[i], borders[i + 1] - borders[i]);
  };
  ClassesBySegment classes(borders.size() - 1, ClassesOfBlocks(kernels_.class_rank));
  const auto coding = [&](size_t i) { return PayloadCoding(kernels_, round, &classes[i]); };
  const auto sum_site = [&](size_t i, const Messages& payloads) {
    return SumSite(coding(i), {payloads, round.contributes, me_, mine}, borders[i], segment(i));
  };
  const size_t leader = LeaderOf(my_site_);
  std::vector<size_t> leaders, members;
  if (IsLeader()) {
    for (size_t s = 0; s < sites_.size(); ++s) leaders.push_back(LeaderOf(s));
    members.assign(sites_[my_site_].begin() + 1, sites_[my_site_].end());
  }
  const bool has_members = !members.empty();

  const Stage to_leader = {
      [&](size_t i, Messages) -> StatusOr<Messages> {
        return Messages{EncodePayload(coding(i), mine, borders[i], borders[i + 1])};
      },
      [&](const Messages& payload) -> StatusOr<Messages> {
        traffic_.contribution += payload.front().size();
        return Send(payload, {&leader, 1}, deadline);
      }};
  const Stage between_leaders = {
      [&](size_t i, const Messages& payloads) -> StatusOr<Messages> {
        if (IsLeader()) {
          PULSE_RETURN_IF_ERROR(sum_site(i, payloads));
        }
        return EncodeSum(coding(i), borders[i], segment(i), true);
      },
      [&](const Messages& sum_of_site) { return Send(sum_of_site, leaders, deadline); }};
  const Stage to_members = {[&](size_t i, Messages received) -> StatusOr<Messages> {
                              if (IsLeader()) {
                                PULSE_RETURN_IF_ERROR(several
                                                          ? SumSites(coding(i), std::move(received),
                                                                     borders[i], segment(i))
                                                          : sum_site(i, received));
                              }
                              return EncodeSum(coding(i), borders[i], segment(i), has_members);
                            },
                            [&](const Messages& total) { return Send(total, members, deadline); }};

  const Stage all[] = {to_leader, between_leaders, to_members}, in_one[] = {to_leader, to_members};
  return RunPipeline(borders.size() - 1, several ? std::span<const Stage>(all) : in_one,
                     [&](size_t i, const Messages& totals) {
                       Status taken;
                       if (!IsLeader()) {
                         taken =
                             DecodePartialSum(coding(i), borders[i], totals[leader], segment(i));
                       }
                       classes[i].Clear();
                       return Annotate(taken, "sum of the site's leader");
                     });
}

}  // namespace pulse::loco
