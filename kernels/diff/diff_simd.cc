#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/diff/diff_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <bit>

#include "kernels/arithmetic/prefetch.h"
#include "kernels/diff/diff_bodies.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bit i: whether word i of 64 differs. Loaded as bytes: the words need not be aligned.
template <typename Word>
HWY_INLINE uint64_t DiffersIn64(const uint8_t* before, const uint8_t* after) {
  const hn::CappedTag<Word, 64> d;
  const hn::CappedTag<uint8_t, 64 * sizeof(Word)> bytes;
  const size_t lanes = hn::Lanes(d);
  uint64_t all = 0;
  for (size_t i = 0; i < 64; i += lanes) {
    const auto a = hn::BitCast(d, hn::LoadU(bytes, before + i * sizeof(Word)));
    const auto b = hn::BitCast(d, hn::LoadU(bytes, after + i * sizeof(Word)));
    uint8_t stored[8] = {};
    hn::StoreMaskBits(d, hn::Ne(a, b), stored);
    all |= LoadLittle<uint64_t>(stored) << i;
  }
  return all;
}

template <typename Word>
size_t DiffWords(ByteView before, ByteView after, uint32_t* positions) {
  const size_t words = before.size() / sizeof(Word);
  size_t count = 0;
  size_t i = 0;
  for (; i + 64 <= words; i += 64) {
    const uint8_t* const a = before.data() + i * sizeof(Word);
    const uint8_t* const b = after.data() + i * sizeof(Word);
    for (size_t at = 0; at < 64 * sizeof(Word); at += 64) {
      PrefetchAhead(a + at);
      PrefetchAhead(b + at);
    }
    uint64_t bits = DiffersIn64<Word>(a, b);
    const auto found = static_cast<size_t>(std::popcount(bits));
    // Few differ, but in which 64 can't be predicted: so four are written without asking. There is
    // room: count <= i.
    uint32_t* const out = positions + count;
    for (size_t k = 0; k < 4; ++k, bits &= bits - 1) {
      out[k] = static_cast<uint32_t>(i) + static_cast<uint32_t>(std::countr_zero(bits));
    }
    for (size_t k = 4; k < found; ++k, bits &= bits - 1) {
      out[k] = static_cast<uint32_t>(i) + static_cast<uint32_t>(std::countr_zero(bits));
    }
    count += found;
  }
  for (; i < words; ++i) {
    const size_t at = i * sizeof(Word);
    positions[count] = static_cast<uint32_t>(i);
    count += LoadLittle<Word>(before.data() + at) != LoadLittle<Word>(after.data() + at);
  }
  return count;
}

size_t Diff(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions) {
#if HWY_TARGET == HWY_SCALAR  // a machine without vectors: nothing to gain
  return DiffRef(before, after, word_bytes, positions);
#else
  switch (word_bytes) {
    case 1:
      return DiffWords<uint8_t>(before, after, positions);
    case 2:
      return DiffWords<uint16_t>(before, after, positions);
    case 4:
      return DiffWords<uint32_t>(before, after, positions);
    case 8:
      return DiffWords<uint64_t>(before, after, positions);
  }
  return 0;
#endif
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(Diff);

size_t DiffSimd(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(Diff)(before, after, word_bytes, positions);
}

}  // namespace pulse::kernels
#endif
