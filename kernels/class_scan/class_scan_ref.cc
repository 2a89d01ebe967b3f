#include "kernels/class_scan/class_scan_bodies.h"
#include "kernels/class_scan/class_scan_math.h"

namespace pulse::kernels {
namespace {

// Calls visit(position, class, rank) for every word of the tiles that take part.
template <typename Word, typename Visit>
ClassCounts Walk(const ClassBlock& block, Visit visit) {
  ClassCounts counts = {};
  const size_t words = block.words.size() / sizeof(Word);
  for (size_t i = 0; i < words; ++i) {
    if (!block.active.empty() && block.active[i / kTileWords] == 0) continue;
    const Word word = LoadLittle<Word>(block.words.data() + i * sizeof(Word));
    const uint8_t c = ClassOf(word, block.layout, block.top);
    visit(static_cast<uint32_t>(i), c, counts[c]++);
  }
  return counts;
}

template <typename Visit>
ClassCounts WalkAny(const ClassBlock& block, Visit visit) {
  switch (block.layout.word_bytes) {
    case 1:
      return Walk<uint8_t>(block, visit);
    case 2:
      return Walk<uint16_t>(block, visit);
    case 4:
      return Walk<uint32_t>(block, visit);
    default:
      return Walk<uint64_t>(block, visit);
  }
}

}  // namespace

ClassCounts CountClassesRef(const ClassBlock& block) {
  return WalkAny(block, [](uint32_t, uint8_t, uint32_t) {});
}

ClassCounts RankInClassRef(const ClassBlock& block, std::span<const uint32_t> positions,
                           uint8_t* classes, uint32_t* ranks) {
  size_t next = 0;
  return WalkAny(block, [&](uint32_t position, uint8_t c, uint32_t rank) {
    if (next == positions.size() || positions[next] != position) return;
    classes[next] = c;
    ranks[next] = rank;
    ++next;
  });
}

void SelectInClassRef(const ClassBlock& block, const ClassBegins& begins, uint32_t* entries) {
  ClassBegins next = begins;
  WalkAny(block, [&](uint32_t position, uint8_t c, uint32_t rank) {
    if (next[c] == begins[c + size_t{1}] || entries[next[c]] != rank) return;
    entries[next[c]++] = position;
  });
}

}  // namespace pulse::kernels
