#include "loco/drop_log.h"

namespace pulse::loco {

void DropLog::Note(uint64_t round, uint64_t step, std::span<const uint8_t> contributes) {
  for (size_t k = 0; k < spells_.size(); ++k) {
    Spell& spell = spells_[k];
    if (contributes[k] == 0) {
      if (spell.times++ > 0) continue;
      spell.since = round;
      logger_.warn(
          "round {}, step {}: trainer {} is left out for an error, or non-finite gradients or "
          "weights; said again when it is back",
          round, step, k);
    } else if (spell.times > 0) {
      logger_.warn("round {}, step {}: trainer {} is back; left out {} times since round {}", round,
                   step, k, spell.times, spell.since);
      spell = {};
    }
  }
}

void DropLog::End() {
  for (size_t k = 0; k < spells_.size(); ++k) {
    if (spells_[k].times == 0) continue;
    logger_.warn("trainer {} was left out to the end: {} times since round {}", k, spells_[k].times,
                 spells_[k].since);
    spells_[k] = {};
  }
}

}  // namespace pulse::loco
