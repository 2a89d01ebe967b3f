// Every rank sends its encoded sparse update to every other and adds all of them up itself.
// Receives the encoded bytes of K - 1 trainers: best for few trainers and sparse updates.
#pragma once

#include <vector>

#include "collective/communicator.h"
#include "core/bytes.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"
#include "loco/exchange/pipeline.h"

namespace pulse::loco {

class SparseAllGather final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers.
  // segments: at least so many where an exchange is large, so that encoding, sending and adding
  // overlap. Both equal on all ranks.
  SparseAllGather(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                  uint64_t memory_bytes, uint64_t segments = kOverlappingSegments)
      : communicator_(communicator),
        kernels_(kernels),
        sites_(std::move(sites)),
        memory_bytes_(memory_bytes),
        segments_(segments) {}

  std::string_view name() const override { return "sparse-all-gather"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

  // Sum in its parts, for whoever encodes and adds up elsewhere: the segments' borders, collective
  // as AgreeOnSegments is ...
  StatusOr<std::vector<uint64_t>> Borders(const Contribution& mine, const AgreedRound& round,
                                          uint64_t elements, Deadline deadline);
  // ... and the sum, segment by segment.
  Status SumSegments(const Contribution& mine, const AgreedRound& round,
                     const std::vector<uint64_t>& borders, std::span<float> sum, Deadline deadline);

 private:
  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  uint64_t segments_;
  Traffic traffic_;
};

}  // namespace pulse::loco
