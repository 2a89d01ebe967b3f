#include "loco/exchange/sparse_all_gather.h"

#include <vector>

#include "loco/exchange/payload.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {

Status SparseAllGather::Fold(std::vector<Bytes> payloads, const AgreedRound& round, uint64_t begin,
                             std::span<float> sum) const {
  PULSE_ASSIGN_OR_RETURN(const auto updates,
                         DecodePayloads({kernels_, round}, std::move(payloads), round.contributes,
                                        begin, begin + sum.size()));
  FoldUpdates(sites_, round.contributes, kernels_.reduce, updates, sum);
  return OkStatus();
}

Status SparseAllGather::Sum(const Contribution& mine, const AgreedRound& round,
                            std::span<float> sum, Deadline deadline) {
  traffic_ = {};
  PULSE_ASSIGN_OR_RETURN(const auto borders, AgreeOnSegments(communicator_, mine, round, sum.size(),
                                                             0, memory_bytes_, deadline));
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const Bytes payload = EncodePayload({kernels_, round}, mine, borders[i], borders[i + 1]);
    std::vector<Bytes> payloads;
    PULSE_RETURN_IF_ERROR(communicator_.AllGather(payload, payloads, deadline));
    traffic_.contribution += payload.size();
    traffic_.sent += payload.size() * (payloads.size() - 1);
    traffic_.received += BytesOfOthers(payloads, communicator_.rank());
    PULSE_RETURN_IF_ERROR(Fold(std::move(payloads), round, borders[i],
                               sum.subspan(borders[i], borders[i + 1] - borders[i])));
  }
  return OkStatus();
}

}  // namespace pulse::loco
