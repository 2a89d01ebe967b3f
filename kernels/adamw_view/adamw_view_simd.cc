#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw_view/adamw_view_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "core/bytes.h"
#include "kernels/adamw/adamw_inl.h"
#include "kernels/adamw_view/adamw_view_bodies.h"
#include "kernels/adamw_view/adamw_view_math.h"
#include "kernels/arithmetic/prefetch.h"
#include "kernels/cast_view/cast_view_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
namespace {

constexpr size_t kWordElements = 64;  // a bit each, of a word that says what changed
constexpr size_t kLineFloats = 16;    // of a cache line

// One step of consecutive elements, two vectors at a time, as one vector of views.
class ViewSteps {
 public:
  ViewSteps(const AdamWScalars& scalars, std::span<float> w, std::span<float> m, std::span<float> v,
            std::span<const float> g, std::span<uint16_t> view)
      : adamw_(D(), scalars), w_(w), m_(m), v_(v), g_(g), view_(view) {}

  // Of elements [i, i + 64): bit j tells whether the view of element i + j changed.
  HWY_INLINE uint64_t Word(size_t i) const {
    uint64_t changed = 0;
    for (size_t j = 0; j < kWordElements; j += hn::Lanes(kHalves)) changed |= Pair(i + j) << j;
    return changed;
  }

 private:
  using D = hn::CappedTag<float, kWordElements / 2>;
  using Bits = hn::RebindToUnsigned<D>;
  using Halves = hn::Repartition<uint16_t, D>;
  static constexpr Bits kBits = {};
  static constexpr Halves kHalves = {};

  // The BF16 view in the high half of each lane, if it is no NaN or the canonical one.
  static HWY_INLINE hn::Vec<Bits> Rounded(hn::Vec<Bits> x) {
    const auto odd = hn::And(hn::ShiftRight<16>(x), hn::Set(kBits, 1));
    return hn::Add(x, hn::Add(odd, hn::Set(kBits, 0x7FFF)));
  }

  static HWY_INLINE hn::Vec<Halves> HighHalves(hn::Vec<Bits> low, hn::Vec<Bits> high) {
    return hn::ConcatOdd(kHalves, hn::BitCast(kHalves, high), hn::BitCast(kHalves, low));
  }

  static HWY_INLINE hn::Vec<Bits> AnyRounded(hn::Vec<Bits> x) {
    return hn::ShiftLeft<16>(BF16Lanes(D(), hn::BitCast(D(), x)));
  }

  // Steps the vector of elements from i on; returns the new w.
  HWY_INLINE hn::Vec<D> Step(size_t i, hn::Vec<Bits>& old_w) const {
    auto w = hn::LoadU(D(), w_.data() + i);
    auto m = hn::LoadU(D(), m_.data() + i);
    auto v = hn::LoadU(D(), v_.data() + i);
    old_w = hn::BitCast(kBits, w);
    adamw_.Step(w, m, v, hn::LoadU(D(), g_.data() + i));
    hn::StoreU(w, D(), w_.data() + i);
    hn::StoreU(m, D(), m_.data() + i);
    hn::StoreU(v, D(), v_.data() + i);
    return w;
  }

  HWY_INLINE uint64_t Pair(size_t i) const {
    const size_t lanes = hn::Lanes(D());
    for (size_t j = i; j < i + 2 * lanes; j += kLineFloats) {
      PrefetchAhead(w_.data() + j);
      PrefetchAhead(m_.data() + j);
      PrefetchAhead(v_.data() + j);
      PrefetchAhead(g_.data() + j);
    }
    hn::Vec<Bits> old_low, old_high;
    const auto low = Step(i, old_low), high = Step(i + lanes, old_high);
    const auto after =
        HighHalves(Rounded(hn::BitCast(kBits, low)), Rounded(hn::BitCast(kBits, high)));
    auto before = HighHalves(Rounded(old_low), Rounded(old_high));
    // Where w is NaN it stays so. The new one is canonical, the old one may be any.
    if (HWY_UNLIKELY(!hn::AllFalse(D(), hn::Or(hn::IsNaN(low), hn::IsNaN(high))))) {
      before = HighHalves(AnyRounded(old_low), AnyRounded(old_high));
    }
    hn::StoreU(after, kHalves, view_.data() + i);
    uint8_t stored[8] = {};
    hn::StoreMaskBits(kHalves, hn::Ne(before, after), stored);
    return LoadLittle<uint64_t>(stored);
  }

  AdamWLanes<D> adamw_;
  std::span<float> w_, m_, v_;
  std::span<const float> g_;
  std::span<uint16_t> view_;
};

// Appends the positions of the word's bits.
HWY_INLINE size_t AppendPositions(uint64_t changed, size_t begin, uint32_t* positions,
                                  size_t count) {
  for (; changed != 0; changed &= changed - 1) {
    positions[count++] =
        static_cast<uint32_t>(begin) + static_cast<uint32_t>(std::countr_zero(changed));
  }
  return count;
}

}  // namespace
#endif

size_t AdamWView(const AdamWScalars& scalars, std::span<float> w, std::span<float> m,
                 std::span<float> v, std::span<const float> g, std::span<uint16_t> view,
                 uint32_t* positions) {
#if HWY_TARGET == HWY_SCALAR  // a machine without vectors: nothing to gain
  return AdamWViewRef(scalars, w, m, v, g, view, positions);
#else
  // Positions are written some words late. Where they go depends on the step's division and root;
  // written at once, the loads of the next steps waited for that (2.5 against 1.25 times the time
  // of adamw, in L2 on an EPYC with AVX-512).
  constexpr size_t kLate = 8;
  uint64_t words[kLate] = {};
  const ViewSteps steps(scalars, w, m, v, g, view);
  size_t count = 0;
  size_t i = 0;
  for (; i + kWordElements <= w.size(); i += kWordElements) {
    const uint64_t changed = steps.Word(i);
    uint64_t& slot = words[i / kWordElements % kLate];
    count = AppendPositions(slot, i - kLate * kWordElements, positions, count);
    slot = changed;
  }
  for (size_t at = i - std::min(i, kLate * kWordElements); at < i; at += kWordElements) {
    count = AppendPositions(words[at / kWordElements % kLate], at, positions, count);
  }
  for (; i < w.size(); ++i) {
    positions[count] = static_cast<uint32_t>(i);
    count += AdamWViewElement(scalars, w[i], m[i], v[i], g[i], view[i]);
  }
  return count;
#endif
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
