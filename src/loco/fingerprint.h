// What must be equal on all ranks, as one digest to compare and as named fields to say what
// differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/digest.h"
#include "core/schema.h"
#include "core/status.h"
#include "loco/options.h"

namespace pulse::loco {

// Fields in the order they were added. A value.
class Fingerprint {
 public:
  // key: without '=' and line breaks. value: any text, line breaks become spaces.
  void Add(std::string_view key, std::string_view value);

  Digest digest() const { return DigestOf(AsBytes(text_)); }
  // One "key=value" line per field.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Of everything the bits of theta depend on: modes, optimizer, order of sums, schema, arithmetic
// contract, seed, and what the caller added as options.agreed. Deadlines are not part of it.
Fingerprint FingerprintOf(const Options& options, uint32_t trainers, const ModelSchema& schema);

// texts[r]: rank r's Fingerprint::text(), or any bytes. kInvalidArgument names the fields that
// differ, with each value and its ranks; OK if all are equal.
Status ExplainDifference(std::span<const std::string_view> texts);

// Whether a run with the configuration `now` may continue one with `then` (both
// Fingerprint::text(), or any bytes): all fields equal, but those that no bit of the state depends
// on (rounds, ranks_per_trainer, and keys that start with "checkpoint." or "exchange.").
// kInvalidArgument names the fields that differ, with both values; what: "the checkpoint of round
// 3".
Status ExplainChange(std::string_view what, std::string_view then, std::string_view now);

}  // namespace pulse::loco
