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

namespace pulse::loco {

class SiteMerged final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this. memory_bytes: bound of the buffers,
  // equal on all ranks.
  SiteMerged(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites,
             uint64_t memory_bytes);

  std::string_view name() const override { return "site-merged"; }
  Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  size_t LeaderOf(size_t site) const { return sites_[site].front(); }
  bool IsLeader() const { return me_ == LeaderOf(my_site_); }
  // Elements [begin, begin + sum.size()) of the whole array.
  Status SumSegment(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                    std::span<float> sum, Deadline deadline);
  // On leaders: `sum` becomes the site's.
  Status SumSite(const Contribution& mine, const AgreedRound& round, uint64_t begin,
                 std::span<float> sum, Deadline deadline);
  // On leaders: from the site's sum to the total.
  Status SumSites(const PayloadCoding& coding, uint64_t begin, std::span<float> sum,
                  Deadline deadline);
  // From leaders to the others of their sites.
  Status HandRound(const PayloadCoding& coding, uint64_t begin, std::span<float> sum,
                   Deadline deadline);
  // Sends `message` to the ranks of `to`, counted; nothing to others.
  Status Send(ByteView message, std::span<const size_t> to, std::vector<Bytes>& received,
              Deadline deadline);

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  uint64_t memory_bytes_;
  size_t me_;
  size_t my_site_ = 0;
  std::vector<float> scratch_;  // another site's sum
  Traffic traffic_;
};

}  // namespace pulse::loco
