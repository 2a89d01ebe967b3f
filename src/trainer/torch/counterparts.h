// Steps that we have kernels for, as LibTorch does them: a baseline for benches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace pulse {

// The caller's arrays, of one length; what `run` below works on.
struct CounterpartArrays {
  std::span<float> w, m, v, g;
  std::span<uint16_t> before, after;  // two BF16 views
};

struct CounterpartAdamW {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
};

struct Counterpart {
  std::string kernel;  // whose work it does
  std::string how;     // in LibTorch's words
  std::function<void()> run;
};

// Operations as torch.optim's AdamW (single tensor) chains them; a cast; and the detection of
// changes as TRL's delta weight sync writes it (compare, nonzero, gather). threads: of LibTorch,
// for the whole process.
std::vector<Counterpart> MakeTorchCounterparts(const CounterpartArrays& arrays,
                                               const CounterpartAdamW& options, int threads);

}  // namespace pulse
