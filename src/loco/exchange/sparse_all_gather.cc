#include "loco/exchange/sparse_all_gather.h"

#include <vector>

#include "loco/exchange/payload.h"
#include "loco/exchange/payload_fold.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {

StatusOr<std::vector<uint64_t>> SparseAllGather::Borders(const Contribution& mine,
                                                         const AgreedRound& round,
                                                         uint64_t elements, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(
      auto borders,
      AgreeOnSegments(communicator_, mine, round, elements, ClassesOfBlocks::kBytesPerElement,
                      memory_bytes_ / SegmentsAtATime(1), deadline));
  if (IsWorthOverlapping(round.total_entries())) borders = CutFiner(borders, segments_);
  return borders;
}

Status SparseAllGather::Sum(const Contribution& mine, const AgreedRound& round,
                            std::span<float> sum, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto borders, Borders(mine, round, sum.size(), deadline));
  return SumSegments(mine, round, borders, sum, deadline);
}

Status SparseAllGather::SumSegments(const Contribution& mine, const AgreedRound& round,
                                    const std::vector<uint64_t>& borders, std::span<float> sum,
                                    Deadline deadline) {
  traffic_ = {};
  if (borders.size() < 2) return OkStatus();
  ClassesBySegment classes(borders.size() - 1, ClassesOfBlocks(kernels_.class_rank));
  const auto encode = [&](size_t i, Messages) -> StatusOr<Messages> {
    return Messages{
        EncodePayload({kernels_, round, &classes[i]}, mine, borders[i], borders[i + 1])};
  };
  const auto gather = [&](Messages sent) -> StatusOr<Messages> {
    Messages payloads;
    PULSE_RETURN_IF_ERROR(communicator_.AllGather(sent.front(), payloads, deadline));
    traffic_.contribution += sent.front().size();
    traffic_.sent += sent.front().size() * (payloads.size() - 1);
    traffic_.received += BytesOfOthers(payloads, communicator_.rank());
    return payloads;
  };
  const auto fold = [&](size_t i, const Messages& payloads) {
    const auto me = static_cast<size_t>(communicator_.rank());
    const Status folded = FoldPayloads({kernels_, round, &classes[i]}, sites_,
                                       {payloads, round.contributes, me, mine}, borders[i],
                                       sum.subspan(borders[i], borders[i + 1] - borders[i]));
    classes[i].Clear();
    return folded;
  };
  const Stage stages[] = {{encode, gather}};
  return RunPipeline(borders.size() - 1, stages, fold);
}

}  // namespace pulse::loco
