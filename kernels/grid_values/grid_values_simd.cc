#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/grid_values/grid_values_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/grid_values/grid_values_bodies.h"
#include "kernels/grid_values/grid_values_math.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> GridExponentLanes(D d, hn::Vec<D> exponents) {
  return hn::Max(hn::And(exponents, hn::Set(d, 0xFFu)), hn::Set(d, 1u));
}

// BitsBelowGrid() of each lane.
template <class D>
HWY_INLINE hn::Vec<D> BelowLanes(D d, hn::Vec<D> theta, hn::Vec<D> exponents, unsigned coarser) {
  const hn::RebindToSigned<D> di;
  const auto grid = hn::Add(GridExponentLanes(d, hn::ShiftRight<23>(theta)), hn::Set(d, coarser));
  const auto below = hn::BitCast(di, hn::Sub(grid, GridExponentLanes(d, exponents)));
  const auto most = hn::Set(di, static_cast<int32_t>(kPlainMantissaBits));
  return hn::BitCast(d, hn::Min(hn::Max(below, hn::Zero(di)), most));
}

// SignAway() of each lane, in the sign bit; the other bits are anything.
template <class D>
HWY_INLINE hn::Vec<D> SignAwayLanes(D d, hn::Vec<D> theta) {
  const auto in_cell = hn::And(hn::Add(theta, hn::Set(d, 0x8000u)), hn::Set(d, 0xFFFFu));
  return hn::Xor(theta, hn::Sub(hn::Set(d, 0x8000u), in_cell));  // negative where that is larger
}

void SplitValues(unsigned coarser, std::span<const uint32_t> theta,
                 std::span<const uint32_t> values, uint32_t* symbols, uint32_t* plain) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1u);
  const auto mantissa = hn::Set(d, (1u << kPlainMantissaBits) - 1);
  const auto all = hn::Set(d, kPlainMantissaBits);
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) {
    const auto t = hn::LoadU(d, theta.data() + i), v = hn::LoadU(d, values.data() + i);
    const auto away = hn::ShiftRight<31>(hn::Xor(v, SignAwayLanes(d, t)));
    const auto upper = hn::ShiftLeft<1>(hn::And(hn::ShiftRight<22>(v), hn::Set(d, 0x1FFu)));
    hn::StoreU(hn::Or(upper, away), d, symbols + i);
    const auto below = BelowLanes(d, t, hn::ShiftRight<23>(v), coarser);
    const auto low = hn::And(v, hn::Sub(hn::Shl(one, below), one));
    const auto off = hn::Ne(low, hn::Zero(d));
    const auto omitted = hn::IfThenZeroElse(off, below);
    const auto bits = hn::Shr(hn::And(v, mantissa), omitted);
    const auto count = hn::ShiftLeft<kPlainCountShift>(hn::Sub(all, omitted));
    const auto flag = hn::IfThenElseZero(off, hn::Set(d, kOffGridFlag));
    hn::StoreU(hn::Or(hn::Or(bits, count), flag), d, plain + i);
  }
  for (; i < theta.size(); ++i) {
    symbols[i] = SymbolOf(theta[i], values[i]);
    plain[i] = PlainOf(theta[i], values[i], coarser);
  }
}

void JoinValues(unsigned coarser, std::span<const uint32_t> theta, const uint32_t* symbols,
                const uint32_t* tails, uint32_t* values) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto sign = hn::Set(d, 0x80000000u);
  const auto least = hn::Set(d, 31 - kPlainMantissaBits);
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) {
    const auto t = hn::LoadU(d, theta.data() + i), symbol = hn::LoadU(d, symbols + i);
    const auto below = BelowLanes(d, t, hn::ShiftRight<2>(symbol), coarser);
    const auto tail = hn::ShiftRight<1>(hn::LoadU(d, tails + i));
    const auto plain = hn::Shl(hn::Shr(tail, hn::Add(below, least)), below);
    const auto signs = hn::And(hn::Xor(hn::ShiftLeft<31>(symbol), SignAwayLanes(d, t)), sign);
    const auto upper = hn::ShiftLeft<22>(hn::ShiftRight<1>(symbol));
    hn::StoreU(hn::Or(hn::Or(upper, signs), plain), d, values + i);
  }
  for (; i < theta.size(); ++i) values[i] = ValueOf(theta[i], symbols[i], tails[i], coarser);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(SplitValues);
HWY_EXPORT(JoinValues);

void SplitValuesSimd(unsigned coarser, std::span<const uint32_t> theta,
                     std::span<const uint32_t> values, uint32_t* symbols, uint32_t* plain) {
  HWY_DYNAMIC_DISPATCH(SplitValues)(coarser, theta, values, symbols, plain);
}

void JoinValuesSimd(unsigned coarser, std::span<const uint32_t> theta, const uint32_t* symbols,
                    const uint32_t* tails, uint32_t* values) {
  HWY_DYNAMIC_DISPATCH(JoinValues)(coarser, theta, symbols, tails, values);
}

}  // namespace pulse::kernels
#endif
