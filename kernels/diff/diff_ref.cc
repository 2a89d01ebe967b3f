#include "kernels/diff/diff_bodies.h"

namespace pulse::kernels {
namespace {

template <typename Word>
size_t Diff(ByteView before, ByteView after, uint32_t* positions) {
  size_t count = 0;
  const size_t words = before.size() / sizeof(Word);
  for (size_t i = 0; i < words; ++i) {
    const size_t at = i * sizeof(Word);
    if (LoadLittle<Word>(before.data() + at) != LoadLittle<Word>(after.data() + at)) {
      positions[count++] = static_cast<uint32_t>(i);
    }
  }
  return count;
}

}  // namespace

size_t DiffRef(ByteView before, ByteView after, size_t word_bytes, uint32_t* positions) {
  switch (word_bytes) {
    case 1:
      return Diff<uint8_t>(before, after, positions);
    case 2:
      return Diff<uint16_t>(before, after, positions);
    case 4:
      return Diff<uint32_t>(before, after, positions);
    case 8:
      return Diff<uint64_t>(before, after, positions);
  }
  return 0;
}

}  // namespace pulse::kernels
