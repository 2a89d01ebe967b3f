#include "loco/exchange/owner_partitioned.h"

#include <vector>

#include "loco/exchange/partial_sum.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {

std::span<float> OwnerPartitioned::OwnedBy(std::span<float> sum, size_t r) const {
  const auto ranks = static_cast<uint64_t>(communicator_.size());
  const uint64_t begin = OwnerBegin(sum.size(), r, ranks);
  return sum.subspan(begin, OwnerBegin(sum.size(), r + 1, ranks) - begin);
}

Messages OwnerPartitioned::EncodeParts(const PayloadCoding& coding, const Contribution& mine,
                                       uint64_t begin, uint64_t end) const {
  const size_t ranks = static_cast<size_t>(communicator_.size());
  Messages parts(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    parts[r] = EncodePayload(coding, mine, begin + OwnerBegin(end - begin, r, ranks),
                             begin + OwnerBegin(end - begin, r + 1, ranks));
  }
  return parts;
}

StatusOr<Messages> OwnerPartitioned::SumOwned(const PayloadCoding& coding, const FoldInput& in,
                                              uint64_t begin, std::span<float> sum) const {
  const size_t ranks = static_cast<size_t>(communicator_.size());
  const std::span<float> owned = OwnedBy(sum, in.me);
  const uint64_t first = begin + OwnerBegin(sum.size(), in.me, ranks);
  PULSE_RETURN_IF_ERROR(FoldPayloads(coding, sites_, in, first, owned));
  return Messages{EncodePartialSum(coding, first, owned)};
}

Status OwnerPartitioned::TakeSums(const PayloadCoding& coding, const Messages& sums, uint64_t begin,
                                  std::span<float> sum) const {
  for (size_t r = 0; r < sums.size(); ++r) {
    if (static_cast<int>(r) == communicator_.rank()) continue;
    PULSE_RETURN_IF_ERROR(
        Annotate(DecodePartialSum(coding, begin + OwnerBegin(sum.size(), r, sums.size()), sums[r],
                                  OwnedBy(sum, r)),
                 fmt::format("sum of rank {}", r)));
  }
  return OkStatus();
}

Status OwnerPartitioned::Sum(const Contribution& mine, const AgreedRound& round,
                             std::span<float> sum, Deadline deadline) {
  traffic_ = {};
  PULSE_ASSIGN_OR_RETURN(
      auto borders, AgreeOnSegments(communicator_, mine, round, sum.size(), kBytesPerSummedElement,
                                    memory_bytes_ / SegmentsAtATime(2), deadline));
  if (IsWorthOverlapping(round.total_entries())) borders = CutFiner(borders, segments_);
  const auto segment = [&](size_t i) {
    return sum.subspan(borders[i], borders[i + 1] - borders[i]);
  };
  ClassesBySegment classes(borders.size() - 1, ClassesOfBlocks(kernels_.class_rank));
  const auto coding = [&](size_t i) { return PayloadCoding(kernels_, round, &classes[i]); };
  const auto encode = [&](size_t i, Messages) -> StatusOr<Messages> {
    return EncodeParts(coding(i), mine, borders[i], borders[i + 1]);
  };
  const auto scatter = [&](Messages parts) -> StatusOr<Messages> {
    const std::vector<ByteView> to(parts.begin(), parts.end());
    Messages received;
    PULSE_RETURN_IF_ERROR(communicator_.AllToAll(to, received, deadline));
    for (const Bytes& part : parts) traffic_.contribution += part.size();
    traffic_.sent += BytesOfOthers(parts, communicator_.rank());
    traffic_.received += BytesOfOthers(received, communicator_.rank());
    return received;
  };
  const auto add = [&](size_t i, const Messages& parts) {
    const auto me = static_cast<size_t>(communicator_.rank());
    return SumOwned(coding(i), {parts, round.contributes, me, mine}, borders[i], segment(i));
  };
  const auto gather = [&](Messages mine_summed) -> StatusOr<Messages> {
    Messages sums;
    PULSE_RETURN_IF_ERROR(communicator_.AllGather(mine_summed.front(), sums, deadline));
    traffic_.sent += mine_summed.front().size() * (sums.size() - 1);
    traffic_.received += BytesOfOthers(sums, communicator_.rank());
    return sums;
  };
  const Stage stages[] = {{encode, scatter}, {add, gather}};
  return RunPipeline(borders.size() - 1, stages, [&](size_t i, const Messages& sums) {
    const Status taken = TakeSums(coding(i), sums, borders[i], segment(i));
    classes[i].Clear();
    return taken;
  });
}

}  // namespace pulse::loco
