#include "sync/foreign/way.h"

#include <algorithm>
#include <map>

namespace pulse {
namespace {

using Marks = std::multimap<uint64_t, const ForeignMark*>;

// Backwards from the target, since deltas only lead forward.
StatusOr<std::vector<ForeignMark>> WalkBack(const ForeignFormat& format, Store& store,
                                            const Marks& marks, uint64_t target,
                                            std::optional<uint64_t> local) {
  std::vector<ForeignMark> steps;
  for (uint64_t number = target; number != local.value_or(0) || !local; --number) {
    const auto [begin, end] = marks.equal_range(number);
    if (begin == end && number == 0) {
      return NotFound(
          "{} version {} can't be rebuilt: no full version is there; give the model that version 1 "
          "starts from (--base)",
          format.name(), target);
    }
    if (begin == end) {
      return NotFound("{} version {} can't be rebuilt: version {} is not there", format.name(),
                      target, number);
    }
    // A delta stands before a full version of its number. Who continues takes the delta; a newcomer
    // starts at the first full one.
    const ForeignMark& first = *begin->second;
    const ForeignMark& last = *std::prev(end)->second;
    bool full = first.full.value_or(false);
    if (!local && !full) {
      PULSE_ASSIGN_OR_RETURN(full, format.IsFull(store, last));
    }
    steps.push_back(full ? last : first);
    if (full) break;
  }
  std::ranges::reverse(steps);
  return steps;
}

}  // namespace

StatusOr<std::vector<ForeignMark>> FindForeignWay(const ForeignFormat& format, Store& store,
                                                  const std::vector<ForeignMark>& marks,
                                                  uint64_t target, std::optional<uint64_t> local) {
  Marks by_number;
  for (const ForeignMark& mark : marks) by_number.emplace(mark.number, &mark);
  if (local) {
    auto way = WalkBack(format, store, by_number, target, local);
    if (way.ok()) return way;
    // A gap between here and there: perhaps a full version lies behind it.
    const auto other = WalkBack(format, store, by_number, target, std::nullopt);
    return other.ok() ? other : way;
  }
  return WalkBack(format, store, by_number, target, std::nullopt);
}

}  // namespace pulse
