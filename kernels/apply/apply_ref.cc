#include "kernels/apply/apply_bodies.h"

namespace pulse::kernels {
namespace {

template <typename Word>
void Apply(ByteSpan words, std::span<const uint32_t> positions, ByteView steps) {
  for (size_t i = 0; i < positions.size(); ++i) {
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
