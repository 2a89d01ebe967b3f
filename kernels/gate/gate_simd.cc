#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gate/gate_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <bit>

#include "core/bytes.h"
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

constexpr size_t kWordElements = 64;  // a bit each, of a word that says what is visible

// Entries are written some words late, from a ring that holds their values. Where they go depends
// on what came before; written at once, the loads of the next elements waited for that, and
// compressing lanes is slow before AVX-512 (CPU time an element in L2 on an EPYC, about a tenth
// visible: AVX-512 0.76 -> 0.53 ns, AVX2 4.0 -> 0.61).
class LateEntries {
 public:
  LateEntries(uint32_t* positions, float* values) : positions_(positions), values_(values) {}

  // Writes out the word that took this one's place in the ring. Returns that place.
  HWY_INLINE float* Begin(size_t word) {
    Write(word - kLate);  // before the first round: a word without bits
    return held_ + Slot(word) * kWordElements;
  }
  HWY_INLINE void End(size_t word, uint64_t visible) { words_[Slot(word)] = visible; }

  // Writes out what is left after `words` words.
  size_t Finish(size_t words) {
    for (size_t word = words - HWY_MIN(words, kLate); word < words; ++word) Write(word);
    return count_;
  }

 private:
  static constexpr size_t kLate = 8;
  static constexpr size_t Slot(size_t word) { return word % kLate; }

  HWY_INLINE void Write(size_t word) {
    const float* held = held_ + Slot(word) * kWordElements;
    for (uint64_t bits = words_[Slot(word)]; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(bits));
      positions_[count_] = static_cast<uint32_t>(word * kWordElements + bit);
      values_[count_] = held[bit];
      ++count_;
    }
  }

  uint32_t* positions_;
  float* values_;
  size_t count_ = 0;
  uint64_t words_[kLate] = {};
  float held_[kLate * kWordElements];
};

// What is left over by whole words: from element i on, behind `count` entries.
template <GateView view>
size_t GateRest(size_t i, std::span<const float> theta, std::span<const float> w,
                std::span<float> residual, uint32_t* positions, float* values, size_t count) {
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

// One pass.
template <GateView view>
size_t GateBlock(std::span<const float> theta, std::span<const float> w, std::span<float> residual,
                 uint32_t* positions, float* values) {
  const hn::CappedTag<float, kWordElements> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  LateEntries entries(positions, values);
  size_t i = 0;
  for (; i + kWordElements <= theta.size(); i += kWordElements) {
    float* held = entries.Begin(i / kWordElements);
    uint64_t word = 0;
    for (size_t j = 0; j < kWordElements; j += lanes) {
      PrefetchAhead(theta.data() + i + j);
      PrefetchAhead(w.data() + i + j);
      PrefetchAhead(residual.data() + i + j);
      const auto at = hn::LoadU(d, theta.data() + i + j);
      const auto s = CanonicalLanes(d, hn::Add(hn::Sub(at, hn::LoadU(d, w.data() + i + j)),
                                               hn::LoadU(d, residual.data() + i + j)));
      const auto visible = VisibleLanes<view>(d, at, s);
      hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, visible), s), d, residual.data() + i + j);
      hn::StoreU(s, d, held + j);
      uint8_t stored[8] = {};
      hn::StoreMaskBits(du, visible, stored);
      word |= LoadLittle<uint64_t>(stored) << j;
    }
    entries.End(i / kWordElements, word);
  }
  const size_t count = entries.Finish(i / kWordElements);
  return GateRest<view>(i, theta, w, residual, positions, values, count);
}

// Everything passes.
template <>
size_t GateBlock<GateView::kOpen>(std::span<const float> theta, std::span<const float> w,
                                  std::span<float> residual, uint32_t* positions, float* values) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) {
    PrefetchAhead(theta.data() + i);
    PrefetchAhead(w.data() + i);
    PrefetchAhead(residual.data() + i);
    const auto difference = hn::Sub(hn::LoadU(d, theta.data() + i), hn::LoadU(d, w.data() + i));
    const auto s = CanonicalLanes(d, hn::Add(difference, hn::LoadU(d, residual.data() + i)));
    hn::StoreU(hn::Zero(d), d, residual.data() + i);
    hn::StoreU(s, d, values + i);
    hn::StoreU(hn::Iota(du, static_cast<uint32_t>(i)), du, positions + i);
  }
  return GateRest<GateView::kOpen>(i, theta, w, residual, positions, values, i);
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
