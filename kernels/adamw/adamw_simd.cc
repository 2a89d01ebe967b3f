#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/adamw/adamw_bodies.h"
#include "kernels/adamw/adamw_math.h"
#include "kernels/arithmetic/arithmetic_inl.h"
#include "kernels/arithmetic/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// No MulAdd here: the contract rounds every product.
void AdamW(const AdamWScalars& scalars, std::span<float> w, std::span<float> m, std::span<float> v,
           std::span<const float> g) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto decay = hn::Set(d, scalars.decay);
  const auto beta1 = hn::Set(d, scalars.beta1);
  const auto one_minus_beta1 = hn::Set(d, scalars.one_minus_beta1);
  const auto beta2 = hn::Set(d, scalars.beta2);
  const auto one_minus_beta2 = hn::Set(d, scalars.one_minus_beta2);
  const auto step_size = hn::Set(d, scalars.step_size);
  const auto root_correction2 = hn::Set(d, scalars.root_correction2);
  const auto epsilon = hn::Set(d, scalars.epsilon);
  size_t i = 0;
  for (; i + lanes <= w.size(); i += lanes) {
    PrefetchAhead(w.data() + i);
    PrefetchAhead(m.data() + i);
    PrefetchAhead(v.data() + i);
    PrefetchAhead(g.data() + i);
    const auto gi = hn::LoadU(d, g.data() + i);
    const auto decayed = hn::Mul(hn::LoadU(d, w.data() + i), decay);
    const auto m1 =
        hn::Add(hn::Mul(beta1, hn::LoadU(d, m.data() + i)), hn::Mul(one_minus_beta1, gi));
    const auto v1 = hn::Add(hn::Mul(beta2, hn::LoadU(d, v.data() + i)),
                            hn::Mul(hn::Mul(one_minus_beta2, gi), gi));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v1), root_correction2), epsilon);
    const auto w1 = hn::Sub(decayed, hn::Mul(step_size, hn::Div(m1, denominator)));
    hn::StoreU(CanonicalLanes(d, w1), d, w.data() + i);
    hn::StoreU(CanonicalLanes(d, m1), d, m.data() + i);
    hn::StoreU(CanonicalLanes(d, v1), d, v.data() + i);
  }
  for (; i < w.size(); ++i) AdamWElement(scalars, w[i], m[i], v[i], g[i]);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(AdamW);

void AdamWSimd(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
               std::span<float> v, std::span<const float> g) {
  HWY_DYNAMIC_DISPATCH(AdamW)(scalars, w, m, v, g);
}

}  // namespace pulse::kernels
#endif
