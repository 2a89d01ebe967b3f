#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cast_view/cast_view_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/arithmetic/prefetch.h"
#include "kernels/cast_view/cast_view_bodies.h"
#include "kernels/cast_view/cast_view_inl.h"
#include "kernels/cast_view/cast_view_math.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void CastToBF16(std::span<const float> in, std::span<uint16_t> out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= in.size(); i += lanes) {
    PrefetchAhead(in.data() + i);
    const auto view = BF16Lanes(d, hn::LoadU(d, in.data() + i));
    hn::StoreU(hn::TruncateTo(half, view), half, out.data() + i);
  }
  for (; i < in.size(); ++i) out[i] = BF16Element(in[i]);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(CastToBF16);

void CastToBF16Simd(std::span<const float> in, std::span<uint16_t> out) {
  HWY_DYNAMIC_DISPATCH(CastToBF16)(in, out);
}

}  // namespace pulse::kernels
#endif
