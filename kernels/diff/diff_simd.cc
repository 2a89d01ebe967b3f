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

template <typename Word>
size_t DiffWords(ByteView before, ByteView after, uint32_t* positions) {
  const hn::ScalableTag<Word> d;
  const hn::ScalableTag<uint8_t> bytes;
  const size_t lanes = hn::Lanes(d);
  const size_t words = before.size() / sizeof(Word);
  size_t count = 0;
  size_t i = 0;
  for (; i + lanes <= words; i += lanes) {
    PrefetchAhead(before.data() + i * sizeof(Word));
    PrefetchAhead(after.data() + i * sizeof(Word));
    // Loaded as bytes: the words need not be aligned.
    const auto a = hn::BitCast(d, hn::LoadU(bytes, before.data() + i * sizeof(Word)));
    const auto b = hn::BitCast(d, hn::LoadU(bytes, after.data() + i * sizeof(Word)));
    const auto differs = hn::Ne(a, b);
    if (hn::AllFalse(d, differs)) continue;
    uint8_t stored[8] = {};  // at most 64 lanes: 512-bit vectors of bytes
    hn::StoreMaskBits(d, differs, stored);
    for (uint64_t bits = LoadLittle<uint64_t>(stored); bits != 0; bits &= bits - 1) {
      positions[count++] = static_cast<uint32_t>(i) + static_cast<uint32_t>(std::countr_zero(bits));
    }
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
