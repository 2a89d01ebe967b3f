// class_rank.h for a team of threads (kernels/cuda/team.h): ranks of positions among the elements
// of their class, and back. Each thread walks some neighbours, as the reference walks them all.
#pragma once

#include <bit>

#include "kernels/cuda/team.h"

namespace pulse::kernels {

inline constexpr uint32_t kTeamClasses = 16;     // kRankClasses
inline constexpr uint32_t kTeamSegments = 1024;  // of a block: a thread's walk
inline constexpr uint32_t kNoClass = kTeamClasses;
// Counts by class and segment, summed up before each; the last is the sum of all.
inline constexpr uint32_t kSegmentCounts = kTeamClasses * kTeamSegments + 1;

struct TeamSegment {
  uint32_t begin, end;
};
PULSE_HOST_DEVICE inline TeamSegment SegmentOf(uint32_t n, uint32_t s) {
  const uint32_t length = (n + kTeamSegments - 1) / kTeamSegments;
  const uint32_t begin = s * length < n ? s * length : n;
  return {begin, begin + length < n ? begin + length : n};
}

// The class of an element from the exponent field it has and that of class 0.
PULSE_HOST_DEVICE inline uint32_t ClassBelow(uint32_t top, uint32_t exponent) {
  const uint32_t below = exponent < top ? top - exponent : 0;
  return below < kTeamClasses - 1 ? below : kTeamClasses - 1;
}

// counts of elements: class by class, and in a class segment by segment, how many come before.
// class_of(i), i < n: below kTeamClasses, or kNoClass for elements that are left out.
template <typename Team, typename ClassOf>
PULSE_HOST_DEVICE void CountClasses(const Team& team, uint32_t n, ClassOf class_of,
                                    uint32_t* counts) {
  team.Each(kTeamSegments, [&](uint32_t s) {
    uint32_t seen[kTeamClasses + 1] = {};
    const TeamSegment segment = SegmentOf(n, s);
    for (uint32_t i = segment.begin; i < segment.end; ++i) ++seen[class_of(i)];
    for (uint32_t c = 0; c < kTeamClasses; ++c) counts[c * kTeamSegments + s] = seen[c];
  });
  const uint32_t all = team.Scan(
      kSegmentCounts - 1, [&](uint32_t i) { return counts[i]; },
      [&](uint32_t i, uint32_t before) { counts[i] = before; });
  team.One([&] { counts[kSegmentCounts - 1] = all; });
}

PULSE_HOST_DEVICE inline uint32_t ClassBegin(const uint32_t* counts, uint32_t c) {
  return counts[c * kTeamSegments];
}
PULSE_HOST_DEVICE inline uint32_t ClassSize(const uint32_t* counts, uint32_t c) {
  return ClassBegin(counts, c + 1) - ClassBegin(counts, c);
}

// positions: ascending, of elements that have a class. by_class: the rank of each among the
// elements of its class; those of class 0 first, ascending in a class. slots, unless null:
// by_class[slots[e]] is entry e's. counts: CountClasses'. entry_counts: becomes the same of the
// entries.
template <typename Team, typename ClassOf>
PULSE_HOST_DEVICE void RankByClass(const Team& team, uint32_t n, ClassOf class_of,
                                   const uint32_t* counts, const uint32_t* positions,
                                   uint32_t entries, uint32_t* entry_counts, uint32_t* by_class,
                                   uint32_t* slots) {
  team.Each(kTeamSegments, [&](uint32_t s) {
    uint32_t seen[kTeamClasses + 1] = {};
    const TeamSegment segment = SegmentOf(n, s);
    uint32_t e = LowerBound(positions, 0, entries, segment.begin);
    for (; e < entries && positions[e] < segment.end; ++e) ++seen[class_of(positions[e])];
    for (uint32_t c = 0; c < kTeamClasses; ++c) entry_counts[c * kTeamSegments + s] = seen[c];
  });
  team.Scan(
      kSegmentCounts - 1, [&](uint32_t i) { return entry_counts[i]; },
      [&](uint32_t i, uint32_t before) { entry_counts[i] = before; });
  team.One([&] { entry_counts[kSegmentCounts - 1] = entries; });
  team.Each(kTeamSegments, [&](uint32_t s) {
    const TeamSegment segment = SegmentOf(n, s);
    uint32_t e = LowerBound(positions, 0, entries, segment.begin);
    if (e == entries || positions[e] >= segment.end) return;
    uint32_t rank[kTeamClasses + 1], slot[kTeamClasses + 1];
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      rank[c] = counts[c * kTeamSegments + s] - ClassBegin(counts, c);
      slot[c] = entry_counts[c * kTeamSegments + s];
    }
    for (uint32_t i = segment.begin; i < segment.end; ++i) {
      const uint32_t c = class_of(i);
      if (c == kNoClass) continue;
      if (positions[e] == i) {
        by_class[slot[c]] = rank[c];
        if (slots != nullptr) slots[e] = slot[c];
        ++slot[c];
        if (++e == entries || positions[e] >= segment.end) return;
      }
      ++rank[c];
    }
  });
}

// The inverse. begins: of each class's part of by_class, and the number of entries. Ranks ascend in
// a class, each below its size. offsets: scratch, kTeamSegments words.
template <typename Team, typename ClassOf>
PULSE_HOST_DEVICE void SelectByClass(const Team& team, uint32_t n, ClassOf class_of,
                                     const uint32_t* counts, const uint32_t* begins,
                                     const uint32_t* by_class, uint32_t* offsets,
                                     uint32_t* positions, uint32_t* slots) {
  const auto rank_at = [&](uint32_t c, uint32_t s) {
    return counts[c * kTeamSegments + s] - ClassBegin(counts, c);
  };
  team.Each(kTeamSegments, [&](uint32_t s) {
    uint32_t number = 0;
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      number += LowerBound(by_class, begins[c], begins[c + 1], rank_at(c, s + 1)) -
                LowerBound(by_class, begins[c], begins[c + 1], rank_at(c, s));
    }
    offsets[s] = number;
  });
  const uint32_t all = team.Scan(
      kTeamSegments, [&](uint32_t s) { return offsets[s]; },
      [&](uint32_t s, uint32_t before) { offsets[s] = before; });
  team.Each(kTeamSegments, [&](uint32_t s) {
    const uint32_t last = s + 1 < kTeamSegments ? offsets[s + 1] : all;
    uint32_t e = offsets[s];
    if (e == last) return;
    uint32_t rank[kTeamClasses + 1], slot[kTeamClasses + 1];
    for (uint32_t c = 0; c < kTeamClasses; ++c) {
      rank[c] = rank_at(c, s);
      slot[c] = LowerBound(by_class, begins[c], begins[c + 1], rank[c]);
    }
    const TeamSegment segment = SegmentOf(n, s);
    for (uint32_t i = segment.begin; i < segment.end; ++i) {
      const uint32_t c = class_of(i);
      if (c == kNoClass) continue;
      if (slot[c] < begins[c + 1] && by_class[slot[c]] == rank[c]) {
        positions[e] = i;
        if (slots != nullptr) slots[e] = slot[c];
        ++slot[c];
        if (++e == last) return;
      }
      ++rank[c];
    }
  });
}

// Words of one team for ClassRankOp and ClassSelectOp.
inline constexpr uint64_t kClassRankScratch = 2 * uint64_t{kSegmentCounts} + kTeamClasses + 2;

PULSE_HOST_DEVICE inline uint32_t ExponentFieldOf(float x) {
  return std::bit_cast<uint32_t>(x) >> 23 & 0xFF;
}

// ClassifyFn, then RankFn, of each block of 2^20 floats; and by class, which is how codecs use
// them.
struct ClassRankOp {
  const float* theta;
  uint64_t elements;
  const uint64_t* starts;  // of the blocks' positions
  const uint32_t* positions;
  uint32_t* ranks;     // of each position
  uint32_t* by_class;  // the same, those of class 0 first
  uint32_t* sizes;     // by block, kTeamClasses: elements of a class

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    const float* const block = theta + b * kClassRankBlock;
    const uint64_t left = elements - b * kClassRankBlock;
    const auto n = static_cast<uint32_t>(left < kClassRankBlock ? left : kClassRankBlock);
    const uint32_t top = team.Max(n, [&](uint32_t i) { return ExponentFieldOf(block[i]); });
    const auto class_of = [&](uint32_t i) { return ClassBelow(top, ExponentFieldOf(block[i])); };
    const uint64_t first = starts[b];
    const auto entries = static_cast<uint32_t>(starts[b + 1] - first);
    uint32_t* const counts = scratch;
    // ranks holds the slots until the ranks are known.
    CountClasses(team, n, class_of, counts);
    RankByClass(team, n, class_of, counts, positions + first, entries, scratch + kSegmentCounts,
                by_class + first, ranks + first);
    team.Each(entries, [&](uint32_t e) { ranks[first + e] = by_class[first + ranks[first + e]]; });
    team.Each(kTeamClasses,
              [&](uint32_t c) { sizes[b * kTeamClasses + c] = ClassSize(counts, c); });
  }

  static constexpr uint64_t kClassRankBlock = uint64_t{1} << 20;
};

// ClassifyFn, then SelectFn, of each block of 2^20 floats.
struct ClassSelectOp {
  const float* theta;
  uint64_t elements;
  const uint64_t* starts;   // of the blocks' ranks
  const uint32_t* entries;  // by block, kTeamClasses: ranks of a class
  const uint32_t* by_class;
  uint32_t* positions;

  template <typename Team>
  PULSE_HOST_DEVICE void Run(const Team& team, uint64_t b, uint32_t* scratch) const {
    const float* const block = theta + b * ClassRankOp::kClassRankBlock;
    const uint64_t left = elements - b * ClassRankOp::kClassRankBlock;
    const auto n = static_cast<uint32_t>(
        left < ClassRankOp::kClassRankBlock ? left : ClassRankOp::kClassRankBlock);
    const uint32_t top = team.Max(n, [&](uint32_t i) { return ExponentFieldOf(block[i]); });
    const auto class_of = [&](uint32_t i) { return ClassBelow(top, ExponentFieldOf(block[i])); };
    uint32_t* const begins = scratch + 2 * kSegmentCounts;
    team.One([&] {
      uint32_t begin = 0;
      for (uint32_t c = 0; c < kTeamClasses; ++c) {
        begins[c] = begin;
        begin += entries[b * kTeamClasses + c];
      }
      begins[kTeamClasses] = begin;
    });
    CountClasses(team, n, class_of, scratch);
    SelectByClass(team, n, class_of, scratch, begins, by_class + starts[b],
                  scratch + kSegmentCounts, positions + starts[b], nullptr);
  }
};

}  // namespace pulse::kernels
