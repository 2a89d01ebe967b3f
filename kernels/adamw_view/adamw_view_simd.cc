#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw_view/adamw_view_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/adamw/adamw_inl.h"
#include "kernels/adamw_view/adamw_view_bodies.h"
#include "kernels/adamw_view/adamw_view_math.h"
#include "kernels/arithmetic/prefetch.h"
#include "kernels/cast_view/cast_view_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Compressed positions are stored as whole vectors, as in gate_simd.cc.
size_t AdamWView(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                 std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                 uint32_t* positions) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  const AdamWLanes adamw(d, scalars);
  size_t count = 0;
  size_t i = 0;
  for (; i + lanes <= w.size(); i += lanes) {
    PrefetchAhead(w.data() + i);
    PrefetchAhead(m.data() + i);
    PrefetchAhead(v.data() + i);
    PrefetchAhead(g.data() + i);
    auto wi = hn::LoadU(d, w.data() + i);
    auto mi = hn::LoadU(d, m.data() + i);
    auto vi = hn::LoadU(d, v.data() + i);
    const auto before = BF16Lanes(d, wi);
    adamw.Step(wi, mi, vi, hn::LoadU(d, g.data() + i));
    const auto after = BF16Lanes(d, wi);
    hn::StoreU(wi, d, w.data() + i);
    hn::StoreU(mi, d, m.data() + i);
    hn::StoreU(vi, d, v.data() + i);
    hn::StoreU(hn::TruncateTo(half, after), half, view.data() + i);
    const auto changed = hn::Ne(before, after);
    if (hn::AllFalse(du, changed)) continue;
    const auto position = hn::Iota(du, static_cast<uint32_t>(i));
    hn::StoreU(hn::Compress(position, changed), du, positions + count);
    count += hn::CountTrue(du, changed);
  }
  for (; i < w.size(); ++i) {
    positions[count] = static_cast<uint32_t>(i);
    count += AdamWViewElement(scalars, w[i], m[i], v[i], g[i], view[i]);
  }
  return count;
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(AdamWView);

size_t AdamWViewSimd(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                     std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                     uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(AdamWView)(scalars, w, m, v, g, view, positions);
}

}  // namespace pulse::kernels
#endif
