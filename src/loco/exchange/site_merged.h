// Trainers of a site send their updates to the site's leader, its first trainer, over the fast
// links inside; leaders send each other their sites' sums over the slow ones, add them up in order,
// and hand the total round. Nothing is dropped or gated again. A site's slow link carries the other
// sites' sums once, whatever the number of trainers behind it.
#pragma once

#include "collective/communicator.h"
#include "core/bytes.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/payload_fold.h"
#include "loco/exchange/pipeline.h"

namespace pulse::loco {

class SiteMerged final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers.
  // segments: at least so many where an exchange is large, so that encoding, sending and adding
  // overlap. Both equal on all ranks.
  SiteMerged(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
             uint64_t memory_bytes, uint64_t segments = kOverlappingSegments);

  std::string_view name() const override { return "site-merged"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  size_t LeaderOf(size_t site) const { return sites_[site].front(); }
  bool IsLeader() const { return me_ == LeaderOf(my_site_); }
  // On leaders: `sum`, elements [begin, begin + sum.size()) of the whole array, becomes the site's.
  Status SumSite(const PayloadCoding& coding, const FoldInput& of_all, uint64_t begin,
                 std::span<float> sum) const;
  // On leaders: from the sites' sums of that segment to the total.
  Status SumSites(const PayloadCoding& coding, Messages sums, uint64_t begin,
                  std::span<float> sum) const;
  // What a leader sends of a finished sum; nothing from others, or where nobody waits for it.
  Messages EncodeSum(const PayloadCoding& coding, uint64_t begin, std::span<const float> sum,
                     bool wanted) const;
  // Sends the one message to the ranks of `to`, counted; nothing to others.
  StatusOr<Messages> Send(const Messages& message, std::span<const size_t> to, Deadline deadline);

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  uint64_t segments_;
  size_t me_;
  size_t my_site_ = 0;
  Traffic traffic_;
};

}  // namespace pulse::loco
