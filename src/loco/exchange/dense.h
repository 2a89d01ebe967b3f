// The array is cut into one chunk per rank. Each rank sends every chunk to its owner, the owner
// adds them up in the canonical order, and the sums are gathered: 2 (K-1)/K * 4N bytes received per
// rank, as a ring has, with an order of ours.
#pragma once

#include <vector>

#include "collective/communicator.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"

namespace pulse::loco {

class DenseExchange final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers,
  // equal on all ranks.
  DenseExchange(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                uint64_t memory_bytes)
      : communicator_(communicator),
        kernels_(kernels),
        sites_(std::move(sites)),
        memory_bytes_(memory_bytes) {}

  std::string_view name() const override { return "dense"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  // Elements [begin, begin + sum.size()) of the whole array.
  Status SumSegment(const Contribution& mine, std::span<const uint8_t> contributes, uint64_t begin,
                    std::span<float> sum, Deadline deadline);
  // This trainer's part of a segment; empty if it has none. Valid until the next call.
  std::span<const float> SegmentOf(const Contribution& mine, uint64_t begin, uint64_t length);

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  std::vector<float> scattered_;  // a segment of a sparse contribution
  Traffic traffic_;
};

}  // namespace pulse::loco
