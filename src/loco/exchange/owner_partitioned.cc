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

Status OwnerPartitioned::SumOwned(const Contribution& mine, const AgreedRound& round,
                                  uint64_t begin, std::span<float> sum, Deadline deadline) {
  const size_t ranks = static_cast<size_t>(communicator_.size());
  const size_t me = static_cast<size_t>(communicator_.rank());
  std::vector<Bytes> parts(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    parts[r] = EncodePayload({kernels_, round}, mine, begin + OwnerBegin(sum.size(), r, ranks),
                             begin + OwnerBegin(sum.size(), r + 1, ranks));
    traffic_.contribution += parts[r].size();
    if (r != me) traffic_.sent += parts[r].size();
  }
  const std::vector<ByteView> to(parts.begin(), parts.end());
  std::vector<Bytes> received;
  PULSE_RETURN_IF_ERROR(communicator_.AllToAll(to, received, deadline));
  traffic_.received += BytesOfOthers(received, communicator_.rank());
  const std::span<float> owned = OwnedBy(sum, me);
  const uint64_t first = begin + OwnerBegin(sum.size(), me, ranks);
  PULSE_ASSIGN_OR_RETURN(const auto updates,
                         DecodePayloads({kernels_, round}, std::move(received), round.contributes,
                                        first, first + owned.size()));
  FoldUpdates(sites_, round.contributes, kernels_.reduce, updates, owned);
  return OkStatus();
}

Status OwnerPartitioned::SumSegment(const Contribution& mine, const AgreedRound& round,
                                    uint64_t begin, std::span<float> sum, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(SumOwned(mine, round, begin, sum, deadline));
  const size_t me = static_cast<size_t>(communicator_.rank());
  const auto ranks = static_cast<uint64_t>(communicator_.size());
  const PayloadCoding coding(kernels_, round);
  const Bytes encoded =
      EncodePartialSum(coding, begin + OwnerBegin(sum.size(), me, ranks), OwnedBy(sum, me));
  std::vector<Bytes> sums;
  PULSE_RETURN_IF_ERROR(communicator_.AllGather(encoded, sums, deadline));
  traffic_.sent += encoded.size() * (sums.size() - 1);
  traffic_.received += BytesOfOthers(sums, communicator_.rank());
  for (size_t r = 0; r < sums.size(); ++r) {
    if (r == me) continue;
    PULSE_RETURN_IF_ERROR(
        Annotate(DecodePartialSum(coding, begin + OwnerBegin(sum.size(), r, ranks), sums[r],
                                  OwnedBy(sum, r)),
                 fmt::format("sum of rank {}", r)));
  }
  return OkStatus();
}

Status OwnerPartitioned::Sum(const Contribution& mine, const AgreedRound& round,
                             std::span<float> sum, Deadline deadline) {
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
