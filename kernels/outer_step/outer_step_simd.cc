#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/outer_step/outer_step_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/arithmetic/arithmetic_inl.h"
#include "kernels/arithmetic/prefetch.h"
#include "kernels/outer_step/outer_step_bodies.h"
#include "kernels/outer_step/outer_step_math.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// No MulAdd here: the contract rounds every product.
void OuterStep(const OuterScalars& scalars, std::span<const float> sum, std::span<float> momentum,
               std::span<float> theta) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto learning_rate = hn::Set(d, scalars.learning_rate);
  const auto mu = hn::Set(d, scalars.momentum);
  const auto trainers = hn::Set(d, scalars.trainers);
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) {
    PrefetchAhead(sum.data() + i);
    PrefetchAhead(momentum.data() + i);
    PrefetchAhead(theta.data() + i);
    const auto g = hn::Div(hn::LoadU(d, sum.data() + i), trainers);
    const auto b = hn::Add(hn::Mul(mu, hn::LoadU(d, momentum.data() + i)), g);
    const auto step = hn::Mul(learning_rate, hn::Add(g, hn::Mul(mu, b)));
    const auto moved = hn::Sub(hn::LoadU(d, theta.data() + i), step);
    hn::StoreU(CanonicalLanes(d, b), d, momentum.data() + i);
    hn::StoreU(CanonicalLanes(d, moved), d, theta.data() + i);
  }
  for (; i < theta.size(); ++i) OuterStepElement(scalars, sum[i], momentum[i], theta[i]);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(OuterStep);

void OuterStepSimd(const OuterScalars& scalars, std::span<const float> sum,
                   std::span<float> momentum, std::span<float> theta) {
  HWY_DYNAMIC_DISPATCH(OuterStep)(scalars, sum, momentum, theta);
}

}  // namespace pulse::kernels
#endif
