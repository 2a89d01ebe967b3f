// Says when a trainer begins to be left out, and when that ends: not at every round between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/log.h"

namespace pulse::loco {

// One meeting after which trainers are left out: in ddp each local step, else each round.
class DropLog {
 public:
  // logger must outlive this.
  DropLog(Logger& logger, uint32_t trainers) : logger_(logger), spells_(trainers) {}

  // contributes: by trainer, as Decide has it. round: counts from 1. Warns of trainers that are
  // left out and were not before, and tells of those that are back how often they had been.
  void Note(uint64_t round, uint64_t step, std::span<const uint8_t> contributes);

  // At the end of the run: tells of trainers that are still out.
  void End();

 private:
  struct Spell {
    uint64_t times = 0;  // in a row; 0: it contributes
    uint64_t since = 0;  // round
  };

  Logger& logger_;
  std::vector<Spell> spells_;
};

}  // namespace pulse::loco
