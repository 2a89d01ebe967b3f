// The array is cut into one range per rank. Each rank sends every owner the part of its sparse
// update in the owner's range; the owner adds them up in the canonical order, and the sums are
// gathered, each sparse or dense as is smaller. Receives (K-1)/K of one update and of the union:
// beats the all-gather with many trainers, or where their entries are mostly the same.
#pragma once

#include "collective/communicator.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"

namespace pulse::loco {

class OwnerPartitioned final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers,
  // equal on all ranks.
  OwnerPartitioned(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                   uint64_t memory_bytes)
      : communicator_(communicator),
        kernels_(kernels),
        sites_(std::move(sites)),
        memory_bytes_(memory_bytes) {}

  std::string_view name() const override { return "owner-partitioned"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  // Elements [begin, begin + sum.size()) of the whole array.
  Status SumSegment(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                    std::span<float> sum, Deadline deadline);
  // This rank's range of `sum`, added up.
  Status SumOwned(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                  std::span<float> sum, Deadline deadline);
  // Rank r's range of a segment.
  std::span<float> OwnedBy(std::span<float> sum, size_t r) const;

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  Traffic traffic_;
};

}  // namespace pulse::loco
