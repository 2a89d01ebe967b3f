#include "loco/exchange/sparse_all_gather.h"

#include <algorithm>
#include <vector>

#include "codec/sparse_codec.h"

namespace pulse::loco {

uint64_t SparseAllGather::Prepare(const Contribution& mine) {
  payload_.clear();
  if (mine.absent()) return 0;
  payload_ =
      EncodeSparseUpdate(mine.sparse != nullptr ? *mine.sparse : SparseFromDense(mine.dense));
  return payload_.size();
}

Status SparseAllGather::Sum(std::span<const uint8_t> contributes, std::span<float> sum,
                            Deadline deadline) {
  std::vector<Bytes> payloads;
  PULSE_RETURN_IF_ERROR(communicator_.AllGather(payload_, payloads, deadline));
  traffic_ = {.sent = payload_.size() * (payloads.size() - 1), .received = 0};
  std::vector<SparseUpdate> updates(payloads.size());
  for (size_t k = 0; k < payloads.size(); ++k) {
    if (static_cast<int>(k) != communicator_.rank()) traffic_.received += payloads[k].size();
    if (contributes[k] == 0) continue;
    auto update = DecodeSparseUpdate(payloads[k], sum.size());
    if (!update.ok()) return Annotate(update.status(), fmt::format("update of trainer {}", k));
    updates[k] = *std::move(update);
    payloads[k] = Bytes();
  }
  std::vector<float> site_sum(sites_.size() > 1 ? kSparseBlockElements : 0);
  for (uint64_t b = 0; b < SparseBlocksFor(sum.size()); ++b) {
    const uint64_t begin = b * kSparseBlockElements;
    const uint64_t length = std::min<uint64_t>(kSparseBlockElements, sum.size() - begin);
    FoldInOrder(sites_, contributes, kernels_.reduce.add_dense,
                std::span(site_sum).first(site_sum.empty() ? 0 : length),
                sum.subspan(begin, length), [&](uint32_t k, std::span<float> out) {
                  kernels_.reduce.add_sparse(out, updates[k].BlockPositions(b),
                                             updates[k].BlockValues(b));
                });
  }
  return OkStatus();
}

}  // namespace pulse::loco
