// What a round did, for logs, metrics files and tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/digest.h"
#include "loco/exchange/choice.h"
#include "loco/exchange/exchange.h"
#include "loco/options.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// Seconds of one rank by what it did. meet is mostly the wait for the slowest trainer.
struct PhaseSeconds {
  double compute = 0;   // local gradients and AdamW
  double gate = 0;      // pseudo-gradient, gate, encoding
  double meet = 0;      // status tables
  double exchange = 0;  // payloads, decoding, sum
  double outer = 0;     // outer step, change of the view; in ddp AdamW
  double digest = 0;    // digest of theta and its comparison

  double total() const { return compute + gate + meet + exchange + outer + digest; }
};

// Adds the time from its construction to its destruction to `seconds`.
class PhaseTimer {
 public:
  PhaseTimer(const Clock& clock, double& seconds)
      : clock_(clock), seconds_(seconds), start_ns_(clock.NowNs()) {}
  ~PhaseTimer() { seconds_ += static_cast<double>(clock_.NowNs() - start_ns_) * 1e-9; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  const Clock& clock_;
  double& seconds_;
  int64_t start_ns_;
};

// Equal on all ranks except where it says "this rank".
struct RoundReport {
  uint64_t round = 0;     // counts from 1: rounds completed, this one included
  uint64_t elements = 0;  // N
  uint32_t trainers = 0;  // K
  Mode mode = Mode::kPulseLoco;
  RolloutWeights rollout_weights = RolloutWeights::kGlobal;
  std::vector<uint32_t> dropped;  // trainers left out for non-finite values (in ddp: at some step)
  bool skipped = false;   // nobody contributed: theta is what it was (in ddp: at every step)
  bool stopping = false;  // some rank asked to stop; this is the last round

  Metrics metrics;  // summed over the local steps of all trainers that were not dropped

  uint64_t entries = 0;            // sent by all trainers together; in ddp at the last step
  double gate_density = 0;         // share of N that a contributing trainer sent, on average
  uint64_t view_changes = 0;       // elements of theta's view that this round changed
  double view_change_density = 0;  // the same as a share of N

  // The algorithm's name (in ddp, of the last exchange); empty if nothing was exchanged.
  std::string_view exchange;
  // What it was expected to take, over the whole round. What it did take: most_received, and
  // slowest.exchange.
  Estimate estimate;
  uint64_t most_received = 0;       // payload bytes, by the rank that received most
  Traffic traffic;                  // payloads of this rank, over the whole round
  Traffic traffic_of_all;           // summed over ranks
  uint64_t dense_diloco_bytes = 0;  // what this rank would have received in diloco ...
  uint64_t ddp_bytes = 0;           // ... and in ddp, for the same local steps

  Digest theta;          // ViewDigest of theta as F32, compared on all ranks
  PhaseSeconds seconds;  // this rank
  PhaseSeconds slowest;  // by phase, the rank that took longest
};

// Bytes that each rank receives when `elements` FP32 values are averaged over `trainers` densely:
// 2 (K-1)/K * 4N, rounded down.
inline uint64_t DenseBytes(uint64_t elements, uint32_t trainers) {
  return 8 * elements * (trainers - 1) / trainers;  // 2^64 is 10^12 elements, two million trainers
}

}  // namespace pulse::loco
