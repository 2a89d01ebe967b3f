#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/adamw/adamw_bodies.h"
#include "kernels/adamw/adamw_inl.h"
#include "kernels/adamw/adamw_math.h"
#include "kernels/arithmetic/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AdamW(const AdamWScalars& scalars, std::span<float> w, std::span<float> m, std::span<float> v,
           std::span<const float> g) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const AdamWLanes adamw(d, scalars);
  size_t i = 0;
  for (; i + lanes <= w.size(); i += lanes) {
    PrefetchAhead(w.data() + i);
    PrefetchAhead(m.data() + i);
    PrefetchAhead(v.data() + i);
    PrefetchAhead(g.data() + i);
    auto wi = hn::LoadU(d, w.data() + i);
    auto mi = hn::LoadU(d, m.data() + i);
    auto vi = hn::LoadU(d, v.data() + i);
    adamw.Step(wi, mi, vi, hn::LoadU(d, g.data() + i));
    hn::StoreU(wi, d, w.data() + i);
    hn::StoreU(mi, d, m.data() + i);
    hn::StoreU(vi, d, v.data() + i);
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
