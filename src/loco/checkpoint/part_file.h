// One rank's part of a training checkpoint: its range of a trainer's state, as a safetensors file
// (docs/format.md, "Training checkpoints").
#pragma once

#include <cstdint>
#include <string>

#include "core/digest.h"
#include "core/shards.h"
#include "core/status.h"
#include "loco/state.h"
#include "store/filesystem.h"

namespace pulse::loco {

// Shard `shard` of `shards` of trainer `trainer`.
struct PartId {
  uint32_t trainer = 0;
  uint32_t shard = 0;
  uint32_t shards = 1;

  std::string FileName() const;  // "trainer-00003-shard-00000-of-00001.safetensors"
  friend bool operator==(const PartId&, const PartId&) = default;
};

// What a part holds. Its arrays (theta, m, v and, where the mode has them, residual and
// outer_momentum) are `range` of the trainer's; w is not kept, since a round starts with w <-
// theta.
struct PartHeader {
  PartId id;
  ElementRange range;
  uint64_t round = 0;
  uint64_t step = 0;  // AdamW steps taken
  friend bool operator==(const PartHeader&, const PartHeader&) = default;
};

// What the commit record says of a part: enough to tell whether a file is that very part.
struct PartSeal {
  uint64_t bytes = 0;  // of the file
  Digest digest;       // of the file's header, which holds the digests of the arrays
  friend bool operator==(const PartSeal&, const PartSeal&) = default;
};

// Writes folder/<id's file name>, replacing it, all or nothing and durable. state: arrays of
// header.range's length, or empty ones, which are left out.
StatusOr<PartSeal> WritePart(Filesystem& fs, const std::string& folder, const PartHeader& header,
                             const State& state);

// What it holds, by its header alone, which is checked against `seal`. Errors as of ReadPart.
StatusOr<PartHeader> ReadPartHeader(Filesystem& fs, const std::string& folder, const PartId& id,
                                    const PartSeal& seal);

// Reads what the part `id` has of `range` into `state`, whose arrays are as long as `range`, and
// sets round and step. Reads the whole file, in bounded pieces, and checks every byte of it against
// `seal` (for an empty `range`, its header alone); returns the part's range. kNotFound; kDataLoss
// for any other bytes, or other arrays than `state` has.
StatusOr<ElementRange> ReadPart(Filesystem& fs, const std::string& folder, const PartId& id,
                                const PartSeal& seal, ElementRange range, State& state);

}  // namespace pulse::loco
