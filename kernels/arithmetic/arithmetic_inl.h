// The arithmetic contract for SIMD bodies: compiled once for each Highway target (no #pragma once).
#if defined(PULSE_KERNELS_ARITHMETIC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PULSE_KERNELS_ARITHMETIC_INL_H
#undef PULSE_KERNELS_ARITHMETIC_INL_H
#else
#define PULSE_KERNELS_ARITHMETIC_INL_H
#endif

#include <hwy/highway.h>

#include "kernels/arithmetic/arithmetic.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {

// Canonical() of each lane.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> CanonicalLanes(D d, hwy::HWY_NAMESPACE::Vec<D> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> bits;
  return hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, hn::Set(bits, kCanonicalNaN)), x);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
