#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/class_rank/class_rank_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/class_rank/class_rank_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_AVX3_ZEN4
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kWord = 64;  // elements at a time: one bit each
constexpr uint64_t kOne = 1;

// Bit i of the result: classes[i] == c, for 64 elements.
HWY_INLINE uint64_t MembersOf(uint8_t c, const uint8_t* classes) {
  const hn::CappedTag<uint8_t, kWord> d;
  const size_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, c);
  uint64_t members = 0;
  for (size_t i = 0; i < kWord; i += lanes) {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Eq(hn::LoadU(d, classes + i), wanted), bits);
    uint64_t word;
    std::memcpy(&word, bits, sizeof(word));
    members |= word << i;
  }
  return members;
}

// Where the bit number `rank` of `members` lies; there are more than `rank`.
HWY_INLINE uint32_t SelectBit(uint64_t members, uint32_t rank) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_AVX3_ZEN4
  return static_cast<uint32_t>(std::countr_zero(_pdep_u64(kOne << rank, members)));
#else
  for (; rank > 0; --rank) members &= members - 1;
  return static_cast<uint32_t>(std::countr_zero(members));
#endif
}

// Calls word(first element, members by class) for each 64 elements; behind the last one no class
// has members.
template <typename Word>
HWY_INLINE void ForEachWord(std::span<const uint8_t> classes, Word word) {
  uint64_t members[kRankClasses];
  size_t first = 0;
  for (; first + kWord <= classes.size(); first += kWord) {
    for (size_t c = 0; c < kRankClasses; ++c) {
      members[c] = MembersOf(static_cast<uint8_t>(c), classes.data() + first);
    }
    word(first, members);
  }
  if (first == classes.size()) return;
  std::fill(std::begin(members), std::end(members), 0);
  for (size_t i = first; i < classes.size(); ++i) members[classes[i]] |= kOne << (i - first);
  word(first, members);
}

void Classify(std::span<const float> theta, std::span<uint8_t> classes) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto* bits = reinterpret_cast<const uint32_t*>(theta.data());
  const auto exponent = [&](size_t i) {
    return hn::And(hn::ShiftRight<23>(hn::LoadU(d, bits + i)), hn::Set(d, 0xFF));
  };
  auto tops = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= theta.size(); i += lanes) tops = hn::Max(tops, exponent(i));
  uint32_t top = hn::GetLane(hn::MaxOfLanes(d, tops));
  const auto exponent_of = [&](size_t at) {
    uint32_t word;
    std::memcpy(&word, bits + at, sizeof(word));
    return word >> 23 & 0xFF;
  };
  for (; i < theta.size(); ++i) top = std::max(top, exponent_of(i));
  const auto last = hn::Set(d, uint32_t{kRankClasses - 1});
  for (i = 0; i + lanes <= theta.size(); i += lanes) {
    const auto of_lane = hn::Min(hn::Sub(hn::Set(d, top), exponent(i)), last);
    hn::StoreU(hn::TruncateTo(d8, of_lane), d8, classes.data() + i);
  }
  for (; i < theta.size(); ++i) {
    classes[i] =
        static_cast<uint8_t>(std::min<uint32_t>(top - exponent_of(i), uint32_t{kRankClasses - 1}));
  }
}

// There is no shift of bytes: pairs of them are shifted, and the mask drops what the upper one let
// fall into the lower one.
template <class D>
HWY_INLINE hn::Vec<D> ShiftWords(D d, hn::Vec<D> words, int bits) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::Repartition<uint16_t, D> pairs;
    return hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(pairs, words), bits));
  } else {
    return hn::ShiftRightSame(words, bits);
  }
}

template <typename Word>
void ClassifyAll(ByteView words, const WordLayout& layout, uint32_t top,
                 std::span<uint8_t> classes) {
  const hn::ScalableTag<Word> d;
  const hn::ScalableTag<uint8_t> bytes;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, static_cast<Word>(layout.exponent_mask));
  const auto from = hn::Set(d, static_cast<Word>(top));
  const auto last = hn::Set(d, Word{kRankClasses - 1});
  size_t i = 0;
  for (; i + lanes <= classes.size(); i += lanes) {
    const auto word = hn::BitCast(d, hn::LoadU(bytes, words.data() + i * sizeof(Word)));
    const auto exponent = hn::And(ShiftWords(d, word, layout.exponent_shift), mask);
    const auto of_lane = hn::Min(hn::Sub(from, hn::Min(exponent, from)), last);
    if constexpr (sizeof(Word) == 1) {
      hn::StoreU(of_lane, d, classes.data() + i);
    } else {
      hn::StoreU(hn::TruncateTo(d8, of_lane), d8, classes.data() + i);
    }
  }
  for (; i < classes.size(); ++i) {
    classes[i] = ClassOf(LoadLittle<Word>(words.data() + i * sizeof(Word)), layout, top);
  }
}

void ClassifyWords(ByteView words, const WordLayout& layout, uint32_t top,
                   std::span<uint8_t> classes) {
#if HWY_TARGET == HWY_SCALAR  // a machine without vectors: nothing to gain
  ClassifyWordsRef(words, layout, top, classes);
#else
  switch (layout.word_bytes) {
    case 1:
      return ClassifyAll<uint8_t>(words, layout, top, classes);
    case 2:
      return ClassifyAll<uint16_t>(words, layout, top, classes);
    case 4:
      return ClassifyAll<uint32_t>(words, layout, top, classes);
    default:
      return ClassifyAll<uint64_t>(words, layout, top, classes);
  }
#endif
}

// How many there are of each class: without masks, 16 additions for a vector of elements.
ClassCounts Count(std::span<const uint8_t> classes) {
  const hn::ScalableTag<uint8_t> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const size_t lanes = hn::Lanes(d);
  ClassCounts counts = {};
  size_t i = 0;
  while (i + lanes <= classes.size()) {
    const size_t vectors = std::min<size_t>((classes.size() - i) / lanes, 255);  // bytes count
    for (size_t c = 0; c < kRankClasses; ++c) {
      const auto wanted = hn::Set(d, static_cast<uint8_t>(c));
      auto found = hn::Zero(d);
      for (size_t v = 0; v < vectors; ++v) {
        const auto members = hn::Eq(hn::LoadU(d, classes.data() + i + v * lanes), wanted);
        found = hn::Sub(found, hn::VecFromMask(d, members));
      }
      const auto sums = hn::SumOfLanes(d64, hn::SumsOf8(found));
      counts[c] += static_cast<uint32_t>(hn::GetLane(sums));
    }
    i += vectors * lanes;
  }
  for (; i < classes.size(); ++i) ++counts[classes[i]];
  return counts;
}

ClassCounts Rank(std::span<const uint8_t> classes, std::span<const uint32_t> positions,
                 uint32_t* ranks) {
  if (positions.empty()) return Count(classes);
  ClassCounts seen = {};
  size_t entry = 0;
  ForEachWord(classes, [&](size_t first, const uint64_t* members) {
    for (; entry < positions.size() && positions[entry] < first + kWord; ++entry) {
      const size_t c = classes[positions[entry]];
      const uint64_t before = (kOne << (positions[entry] - first)) - 1;
      ranks[entry] = seen[c] + static_cast<uint32_t>(std::popcount(members[c] & before));
    }
    for (size_t c = 0; c < kRankClasses; ++c) {
      seen[c] += static_cast<uint32_t>(std::popcount(members[c]));
    }
  });
  return seen;
}

void Select(std::span<const uint8_t> classes, const ClassCounts& entries, const uint32_t* ranks,
            uint32_t* positions) {
  const uint32_t* next[kRankClasses];
  const uint32_t* end[kRankClasses];
  for (size_t c = 0; c < kRankClasses; ++c) {
    next[c] = ranks;
    ranks += entries[c];
    end[c] = ranks;
  }
  ClassCounts seen = {};
  ForEachWord(classes, [&](size_t first, const uint64_t* members) {
    uint64_t chosen = 0;
    for (size_t c = 0; c < kRankClasses; ++c) {
      const uint32_t behind = seen[c] + static_cast<uint32_t>(std::popcount(members[c]));
      for (; next[c] != end[c] && *next[c] < behind; ++next[c]) {
        chosen |= kOne << SelectBit(members[c], *next[c] - seen[c]);
      }
      seen[c] = behind;
    }
    for (; chosen != 0; chosen &= chosen - 1) {
      *positions++ = static_cast<uint32_t>(first) + static_cast<uint32_t>(std::countr_zero(chosen));
    }
  });
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(Classify);
HWY_EXPORT(ClassifyWords);
HWY_EXPORT(Rank);
HWY_EXPORT(Select);

void ClassifySimd(std::span<const float> theta, std::span<uint8_t> classes) {
  HWY_DYNAMIC_DISPATCH(Classify)(theta, classes);
}

void ClassifyWordsSimd(ByteView words, const WordLayout& layout, uint32_t top,
                       std::span<uint8_t> classes) {
  HWY_DYNAMIC_DISPATCH(ClassifyWords)(words, layout, top, classes);
}

ClassCounts RankSimd(std::span<const uint8_t> classes, std::span<const uint32_t> positions,
                     uint32_t* ranks) {
  return HWY_DYNAMIC_DISPATCH(Rank)(classes, positions, ranks);
}

void SelectSimd(std::span<const uint8_t> classes, const ClassCounts& entries, const uint32_t* ranks,
                uint32_t* positions) {
  HWY_DYNAMIC_DISPATCH(Select)(classes, entries, ranks, positions);
}

}  // namespace pulse::kernels
#endif
