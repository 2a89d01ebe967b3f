#include "trainer/torch/counterparts.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

namespace pulse {
namespace {

template <typename T>
at::Tensor Wrap(std::span<T> array, at::ScalarType type) {
  return at::from_blob(array.data(), {static_cast<int64_t>(array.size())}, type);
}

}  // namespace

std::vector<Counterpart> MakeTorchCounterparts(const CounterpartArrays& arrays,
                                               const CounterpartAdamW& o, int threads) {
  at::set_num_threads(threads);
  const at::Tensor w = Wrap(arrays.w, at::kFloat), m = Wrap(arrays.m, at::kFloat),
                   v = Wrap(arrays.v, at::kFloat), g = Wrap(arrays.g, at::kFloat),
                   before = Wrap(arrays.before, at::kBFloat16),
                   after = Wrap(arrays.after, at::kBFloat16);
  const auto adamw = [=] {
    const double correction1 = 1 - o.beta1, correction2 = 1 - o.beta2;  // of step 1
    w.mul_(1 - o.learning_rate * o.weight_decay);
    m.mul_(o.beta1).add_(g, 1 - o.beta1);
    v.mul_(o.beta2).addcmul_(g, g, 1 - o.beta2);
    const at::Tensor denominator = (v.sqrt() / std::sqrt(correction2)).add_(o.epsilon);
    w.addcdiv_(m, denominator, -o.learning_rate / correction1);
  };
  const auto cast = [=] { w.to(at::kBFloat16); };
  const auto detect = [=] {
    const at::Tensor positions = before.ne(after).nonzero().squeeze(1);
    after.index_select(0, positions);
  };
  return {{"adamw", "mul_, add_, addcmul_, sqrt, addcdiv_", adamw},
          {"cast_view", "to(bfloat16)", cast},
          {"diff", "ne, nonzero, index_select", detect}};
}

}  // namespace pulse
