// The FP32 master weights of a trainer whose ranks hold a shard each, as its first rank reads them:
// piece by piece, so that nobody holds them as a whole who need not.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collective/checked.h"
#include "core/clock.h"
#include "core/schema.h"
#include "core/shards.h"
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

// On the first rank, within WithMasters. Beside the shard it holds a cell at a time.
class Masters final : public ViewSource {
 public:
  const ModelSchema& schema() const override { return parts_.schema; }
  // The communicator's errors; kDataLoss for a damaged message, or where the shards do not make up
  // the range.
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;

  // All of them: the shard itself where there is no other, else gathered in `room`.
  StatusOr<std::span<const float>> All(std::vector<float>& room) const;

 private:
  friend Status WithMasters(const MastersParts& parts,
                            const std::function<Status(const Masters&)>& work);
  explicit Masters(const MastersParts& parts);
  Status Fetch(ElementRange range, std::span<uint8_t> out) const;

  const MastersParts parts_;
  mutable std::mutex mutex_;                          // of group_
  mutable std::optional<CheckedCommunicator> group_;  // none: alone
};

// Collective: the first rank calls `work`, whose error comes first, while the others are in
// ServeMasters and give it what it asks for.
Status WithMasters(const MastersParts& parts, const std::function<Status(const Masters&)>& work);
Status ServeMasters(const MastersParts& parts);

}  // namespace pulse
