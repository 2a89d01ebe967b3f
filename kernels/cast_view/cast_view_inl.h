// The BF16 view for SIMD bodies: compiled once for each Highway target (no #pragma once).
#if defined(PULSE_KERNELS_CAST_VIEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PULSE_KERNELS_CAST_VIEW_INL_H
#undef PULSE_KERNELS_CAST_VIEW_INL_H
#else
#define PULSE_KERNELS_CAST_VIEW_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {

// BF16Element() of each lane, in the lane's low half; the high half is zero.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<hwy::HWY_NAMESPACE::RebindToUnsigned<D>> BF16Lanes(
    D d, hwy::HWY_NAMESPACE::Vec<D> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  static_cast<void>(d);
  return hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
