#include <algorithm>
#include <bit>

#include "kernels/class_rank/class_rank_bodies.h"
#include "kernels/class_rank/class_rank_math.h"

namespace pulse::kernels {
namespace {

uint32_t ExponentField(float theta) {
  return std::bit_cast<uint32_t>(theta) >> 23 & 0xFF;
}

template <typename Word>
void ClassifyAll(ByteView words, const WordLayout& layout, uint32_t top,
                 std::span<uint8_t> classes) {
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i] = ClassOf(LoadLittle<Word>(words.data() + i * sizeof(Word)), layout, top);
  }
}

}  // namespace

void ClassifyWordsRef(ByteView words, const WordLayout& layout, uint32_t top,
                      std::span<uint8_t> classes) {
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
}

void ClassifyRef(std::span<const float> theta, std::span<uint8_t> classes) {
  uint32_t top = 0;
  for (const float t : theta) top = std::max(top, ExponentField(t));
  for (size_t i = 0; i < theta.size(); ++i) {
    classes[i] = static_cast<uint8_t>(
        std::min<uint32_t>(top - ExponentField(theta[i]), uint32_t{kRankClasses - 1}));
  }
}

ClassCounts RankRef(std::span<const uint8_t> classes, std::span<const uint32_t> positions,
                    uint32_t* ranks) {
  ClassCounts seen = {};
  size_t entry = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (entry < positions.size() && positions[entry] == i) ranks[entry++] = seen[classes[i]];
    ++seen[classes[i]];
  }
  return seen;
}

void SelectRef(std::span<const uint8_t> classes, const ClassCounts& entries, const uint32_t* ranks,
               uint32_t* positions) {
  std::array<const uint32_t*, kRankClasses> next, end;
  for (size_t c = 0; c < kRankClasses; ++c) {
    next[c] = ranks;
    ranks += entries[c];
    end[c] = ranks;
  }
  ClassCounts seen = {};
  for (size_t i = 0; i < classes.size(); ++i) {
    const uint8_t c = classes[i];
    if (next[c] != end[c] && *next[c] == seen[c]) {
      *positions++ = static_cast<uint32_t>(i);
      ++next[c];
    }
    ++seen[c];
  }
}

}  // namespace pulse::kernels
