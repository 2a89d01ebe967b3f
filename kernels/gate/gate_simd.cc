#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gate/gate_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/arithmetic/arithmetic_inl.h"
#include "kernels/arithmetic/prefetch.h"
#include "kernels/cast_view/cast_view_inl.h"
#include "kernels/gate/gate_bodies.h"
#include "kernels/gate/gate_math.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// IsVisible() of each lane.
template <GateView view, class D>
HWY_INLINE auto VisibleLanes(D d, hn::Vec<D> theta, hn::Vec<D> s) {
  const hn::RebindToUnsigned<D> du;
  const auto moved = CanonicalLanes(d, hn::Sub(theta, s));
  if constexpr (view == GateView::kBF16) {
    return hn::Ne(BF16Lanes(d, theta), BF16Lanes(d, moved));
  } else {
    return hn::Ne(hn::BitCast(du, theta), hn::BitCast(du, moved));
  }
}

// One pass. Compressed lanes are stored as whole vectors: entries behind the count are scratch, and
// count never passes i, so a whole vector at `count` ends inside the n entries that the caller
// gave.
template <GateView view>
size_t GateBlock(std::span<const float> theta, std::span<const float> w, std::span<float> residual,
                 uint32_t* positions, float* values) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0;
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) {
    PrefetchAhead(theta.data() + i);
    PrefetchAhead(w.data() + i);
    PrefetchAhead(residual.data() + i);
    const auto at = hn::LoadU(d, theta.data() + i);
    const auto s = CanonicalLanes(
        d, hn::Add(hn::Sub(at, hn::LoadU(d, w.data() + i)), hn::LoadU(d, residual.data() + i)));
    const auto position = hn::Iota(du, static_cast<uint32_t>(i));
    if constexpr (view == GateView::kOpen) {
      hn::StoreU(hn::Zero(d), d, residual.data() + i);
      hn::StoreU(s, d, values + count);
      hn::StoreU(position, du, positions + count);
      count += lanes;
    } else {
      const auto visible = VisibleLanes<view>(d, at, s);
      hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, visible), s), d, residual.data() + i);
      if (hn::AllFalse(du, visible)) continue;
      hn::StoreU(hn::Compress(s, hn::RebindMask(d, visible)), d, values + count);
      hn::StoreU(hn::Compress(position, visible), du, positions + count);
      count += hn::CountTrue(du, visible);
    }
  }
  for (; i < theta.size(); ++i) {
    const float s = PseudoGradient(theta[i], w[i], residual[i]);
    const bool visible = IsVisible<view>(theta[i], s);
    residual[i] = visible ? 0.0f : s;
    positions[count] = static_cast<uint32_t>(i);
    values[count] = s;
    count += visible;
  }
  return count;
}

size_t Gate(GateView view, std::span<const float> theta, std::span<const float> w,
            std::span<float> residual, uint32_t* positions, float* values) {
  switch (view) {
    case GateView::kBF16:
      return GateBlock<GateView::kBF16>(theta, w, residual, positions, values);
    case GateView::kF32:
      return GateBlock<GateView::kF32>(theta, w, residual, positions, values);
    case GateView::kOpen:
      return GateBlock<GateView::kOpen>(theta, w, residual, positions, values);
  }
  return 0;
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(Gate);

size_t GateSimd(GateView view, std::span<const float> theta, std::span<const float> w,
                std::span<float> residual, uint32_t* positions, float* values) {
  return HWY_DYNAMIC_DISPATCH(Gate)(view, theta, w, residual, positions, values);
}

}  // namespace pulse::kernels
#endif
