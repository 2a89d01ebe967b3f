// The exchange that the loop uses: one of the algorithms each time, as configured or by estimate.
#pragma once

#include <memory>

#include "collective/communicator.h"
#include "kernels/kernels.h"
#include "loco/exchange/choice.h"
#include "loco/exchange/exchange.h"
#include "loco/exchange/pipeline.h"

namespace pulse::loco {

// kind: not kAuto. communicator: one rank per trainer; must outlive the exchange. segments: at
// least so many where a sparse exchange is large; 1: nothing overlaps.
std::unique_ptr<Exchange> MakeExchange(ExchangeKind kind, Communicator& communicator,
                                       const kernels::KernelTable& kernels, Sites sites,
                                       uint64_t memory_bytes,
                                       uint64_t segments = kOverlappingSegments);

struct AdaptiveOptions {
  ExchangeKind kind = ExchangeKind::kAuto;
  Sites sites;
  uint64_t memory_bytes = 0;  // bound of the buffers of one exchange
};

// All ranks construct it alike, make the same calls and see the same agreed values, so they choose
// alike. Not thread-safe.
class AdaptiveExchange {
 public:
  // communicator: one rank per trainer; must outlive this.
  AdaptiveExchange(Communicator& communicator, const kernels::KernelTable& kernels,
                   AdaptiveOptions options);

  // How many bytes this trainer expects its contribution to take encoded: what its last one took
  // per entry. For the status table.
  uint64_t ExpectedBytes(uint64_t entries) const;
  uint64_t ExpectedBytes(const Contribution& mine) const { return ExpectedBytes(mine.entries()); }

  // Exchange::Sum by the algorithm chosen from `round` and payload_bytes, the ranks' ExpectedBytes.
  Status Sum(const Contribution& mine, const AgreedRound& round,
             std::span<const uint64_t> payload_bytes, std::span<float> sum, Deadline deadline);

  // Sum in its parts, for whoever adds up elsewhere: which algorithm the ranks use ...
  ExchangeKind Choose(uint64_t elements, const AgreedRound& round,
                      std::span<const uint64_t> payload_bytes);
  // ... and what it took. entries: of this trainer's contribution. nonzero: CountNonZero(sum).
  void Note(const Traffic& traffic, uint64_t entries, uint64_t total_entries, uint64_t nonzero);
  // Whether Note looks at `nonzero`, which costs a scan.
  bool CountsNonZero(const AgreedRound& round) const {
    return options_.kind == ExchangeKind::kAuto && round.total_entries() > 0;
  }

  // Of the last Sum.
  const Estimate& estimate() const { return estimate_; }
  Traffic traffic() const { return traffic_; }

  // Tells how long the last Sum took on the slowest rank. seconds: agreed.
  void Learn(double seconds);

  const LinkModel& links() const { return links_; }

 private:
  Exchange& Algorithm(ExchangeKind kind);

  Communicator& communicator_;
  kernels::KernelTable kernels_;
  AdaptiveOptions options_;
  std::unique_ptr<Exchange> algorithms_[kExchangeKinds.size() + 1];  // by kind, made when needed
  LinkModel links_;
  double union_share_ = 1;
  double entry_bytes_ = 4;  // of the last update that was sent sparse; before, a guess
  Estimate estimate_;
  Traffic traffic_;
};

}  // namespace pulse::loco
