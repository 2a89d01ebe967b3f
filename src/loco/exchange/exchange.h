// How trainers' contributions become one sum on every rank. Algorithms differ in what they send,
// never in bits: each computes the canonical sum of canonical_fold.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/deadline.h"
#include "core/status.h"
#include "loco/exchange/contribution.h"

namespace pulse::loco {

// Payload bytes of one rank, framing and small agreements not counted.
struct Traffic {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// One endpoint per rank; rank = trainer. Not thread-safe.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual std::string_view name() const = 0;

  // Takes this trainer's contribution to the next Sum; it must live until then. Local. Returns the
  // bytes of its encoded form, for the status table.
  virtual uint64_t Prepare(const Contribution& mine) = 0;

  // Collective: overwrites `sum` with the canonical sum over the trainers with contributes[k] != 0,
  // which are exactly those whose contribution is not absent. contributes: as agreed, equal on all
  // ranks. kDataLoss names a trainer whose bytes can't be read; the communicator's errors are
  // passed on. `sum` may be the memory of a dense contribution. After an error `sum` is
  // unspecified.
  virtual Status Sum(std::span<const uint8_t> contributes, std::span<float> sum,
                     Deadline deadline) = 0;

  // Of the last Sum.
  virtual Traffic traffic() const = 0;
};

}  // namespace pulse::loco
