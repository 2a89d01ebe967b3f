// What makes a training checkpoint count: a record, equal on all ranks, that names every part and
// what they hash to (docs/format.md, "Training checkpoints").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/digest.h"
#include "core/status.h"
#include "loco/checkpoint/part_file.h"

namespace pulse::loco {

inline constexpr uint64_t kMaxCommitBytes = uint64_t{16} << 20;  // 100,000 ranks fit in

struct CommitRecord {
  uint64_t round = 0;  // rounds completed
  uint32_t trainers = 0;
  uint32_t shards = 1;                       // ranks per trainer
  uint64_t elements = 0;                     // of the whole state
  Digest theta;                              // ViewDigest of theta as F32
  std::string fingerprint;                   // Fingerprint::text() of the configuration
  std::map<std::string, std::string> notes;  // the observer's own words
  std::vector<PartSeal> parts;               // by trainer, then shard

  const PartSeal& part(uint32_t trainer, uint32_t shard) const {
    return parts[size_t{trainer} * shards + shard];
  }
  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

// Canonical JSON with its own checksum; text that is not UTF-8 is kInvalidArgument.
StatusOr<std::string> SerializeCommit(const CommitRecord& record);

// kDataLoss for anything but the exact bytes that SerializeCommit writes for some record.
StatusOr<CommitRecord> ParseCommit(ByteView bytes);

}  // namespace pulse::loco
