// Everything that a trainer carries from round to round.
#pragma once

#include <cstdint>
#include <vector>

#include "loco/options.h"

namespace pulse::loco {

// Flat FP32 arrays, tensors in schema order: a rank's shard of them, which is all of them where a
// trainer has one rank. A value: copies are snapshots.
struct State {
  uint64_t round = 0;  // rounds completed, as agreed by all ranks
  uint64_t step = 0;   // AdamW steps taken: a dropped round takes its steps back

  std::vector<float> theta;           // equal on all trainers between rounds
  std::vector<float> w;               // being trained; in ddp, theta at the round's start
  std::vector<float> m, v;            // AdamW's moments; they live on across rounds
  std::vector<float> residual;        // e: what the gate held back; empty but in pulseloco
  std::vector<float> outer_momentum;  // b: equal on all trainers; empty in ddp

  // All zero, sized as `mode` needs them.
  static State Zero(Mode mode, uint64_t elements) {
    State state;
    state.theta.resize(elements);
    state.w.resize(elements);
    state.m.resize(elements);
    state.v.resize(elements);
    if (mode == Mode::kPulseLoco) state.residual.resize(elements);
    if (mode != Mode::kDdp) state.outer_momentum.resize(elements);
    return state;
  }
};

}  // namespace pulse::loco
