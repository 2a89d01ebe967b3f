// The array is cut into one range per rank. Each rank sends every owner the part of its sparse
// update in the owner's range; the owner adds them up in the canonical order, and the sums are
// gathered, each sparse or dense as is smaller. Receives (K-1)/K of one update and of the union:
// beats the all-gather with many trainers, or where their entries are mostly the same.
#pragma once

#include "collective/communicator.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"
#include "loco/exchange/payload_fold.h"
#include "loco/exchange/pipeline.h"

namespace pulse::loco {

class OwnerPartitioned final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers.
  // segments: at least so many where an exchange is large, so that encoding, sending and adding
  // overlap. Both equal on all ranks.
  OwnerPartitioned(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
                   uint64_t memory_bytes, uint64_t segments = kOverlappingSegments)
      : communicator_(communicator),
        kernels_(kernels),
        sites_(std::move(sites)),
        memory_bytes_(memory_bytes),
        segments_(segments) {}

  std::string_view name() const override { return "owner-partitioned"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  // Of elements [begin, end) of a contribution, each owner's part.
  Messages EncodeParts(const PayloadCoding& coding, const Contribution& mine, uint64_t begin,
                       uint64_t end) const;
  // Adds up this rank's range of a segment, elements [begin, begin + sum.size()) of the whole
  // array, and encodes it.
  StatusOr<Messages> SumOwned(const PayloadCoding& coding, const FoldInput& in, uint64_t begin,
                              std::span<float> sum) const;
  // Puts the other owners' sums of that segment in place.
  Status TakeSums(const PayloadCoding& coding, const Messages& sums, uint64_t begin,
                  std::span<float> sum) const;
  // Rank r's range of a segment.
  std::span<float> OwnedBy(std::span<float> sum, size_t r) const;

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  uint64_t segments_;
  Traffic traffic_;
};

}  // namespace pulse::loco
