#include <algorithm>

#include "kernels/apply/apply_bodies.h"

namespace pulse::kernels {
namespace {

// Positions that far ahead are asked for: scattered words wait for memory, and many can at once.
constexpr size_t kAhead = 16;

template <typename Word>
void Apply(ByteSpan words, std::span<const uint32_t> positions, ByteView steps) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t ahead = std::min(i + kAhead, positions.size() - 1);
    __builtin_prefetch(words.data() + size_t{positions[ahead]} * sizeof(Word), 1);
    uint8_t* at = words.data() + size_t{positions[i]} * sizeof(Word);
    const Word step = LoadLittle<Word>(steps.data() + i * sizeof(Word));
    const Word moved = static_cast<Word>(LoadLittle<Word>(at) + step);
    std::memcpy(at, &moved, sizeof(Word));
  }
}

}  // namespace

void ApplyRef(ByteSpan words, size_t word_bytes, std::span<const uint32_t> positions,
              ByteView steps) {
  switch (word_bytes) {
    case 1:
      return Apply<uint8_t>(words, positions, steps);
    case 2:
      return Apply<uint16_t>(words, positions, steps);
    case 4:
      return Apply<uint32_t>(words, positions, steps);
    case 8:
      return Apply<uint64_t>(words, positions, steps);
  }
}

}  // namespace pulse::kernels
