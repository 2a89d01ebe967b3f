// How trainers' contributions become one sum on every rank. Algorithms differ in what they send,
// never in bits: each computes the canonical sum of canonical_fold.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "codec/update_codec.h"
#include "core/deadline.h"
#include "core/status.h"
#include "loco/exchange/contribution.h"

namespace pulse::loco {

// Payload bytes of one rank, framing and small agreements not counted.
struct Traffic {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t contribution = 0;  // what its contribution took, encoded or as it lay, each byte once
};

// What all ranks know of an exchange before it, by trainer: the status table's columns.
struct AgreedRound {
  std::span<const uint8_t> contributes;  // 1 for exactly those whose contribution is not absent
  std::span<const uint64_t> entries;     // of the contribution; 0 where there is none

  // How sparse contributions are coded, and what against: the weights that all ranks have. theta
  // may be empty where the codec does not look at it.
  UpdateCodec codec = {};
  std::span<const float> theta = {};

  uint64_t total_entries() const;
};

// One endpoint per rank; rank = trainer. Not thread-safe.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual std::string_view name() const = 0;

  // Collective: overwrites `sum` with the canonical sum over the trainers that contribute. mine:
  // this trainer's. round: equal on all ranks. kDataLoss names a trainer whose bytes can't be read;
  // the communicator's errors are passed on. `sum` may be the memory of a dense contribution. After
  // an error `sum` is unspecified.
  virtual Status Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
                     Deadline deadline) = 0;

  // Of the last Sum.
  virtual Traffic traffic() const = 0;
};

}  // namespace pulse::loco
