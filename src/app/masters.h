// The FP32 master weights of a trainer whose ranks hold a shard each, as its first rank reads them:
// piece by piece, so that nobody holds them as a whole who need not.
#pragma once

#include <span>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"
#include "core/schema.h"
#include "core/status.h"
#include "sync/view.h"

namespace pulse {

// What both sides are made from; everything must outlive them.
struct MastersParts {
  Communicator* group;           // of the trainer's ranks; null for one
  const ModelSchema& schema;     // of the masters: F32
  std::span<const float> shard;  // this rank's, as CutIntoShards cuts
  uint64_t begin;                // its first element
  const Clock& clock;
  int64_t timeout_ms;  // of one wait: the first rank may do much between two reads
};

// First rank; the others are in ServeMasters until End. Not thread-safe.
class Masters final : public ViewSource {
 public:
  explicit Masters(const MastersParts& parts) : parts_(parts) {}

  const ModelSchema& schema() const override { return parts_.schema; }
  // The communicator's errors; kDataLoss where the shards do not make up the range.
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;

  // All of them: the shard itself where there is no other, else gathered in `room`.
  StatusOr<std::span<const float>> All(std::vector<float>& room) const;

  // Lets the other ranks go on; once, whatever happened before.
  Status End() const;

 private:
  const MastersParts parts_;
};

// Other ranks: gives the first one what it asks for, until it ends.
Status ServeMasters(const MastersParts& parts);

}  // namespace pulse
