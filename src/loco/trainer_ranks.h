// The ranks that share one trainer, as one of them sees the others: what is cut into shards, and
// what they put together while a trainer computes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collective/communicator.h"
#include "core/deadline.h"
#include "core/digest.h"
#include "core/shards.h"
#include "core/status.h"
#include "kernels/reduce/reduce.h"

namespace pulse::loco {

// Which communicators a rank is in beside that of all ranks. Where a trainer has one rank, both may
// be null; peers is then another way between all ranks, for the exchanges alone.
struct Topology {
  Communicator* trainer = nullptr;  // the R ranks of this trainer, by shard
  Communicator* peers = nullptr;    // the K ranks that hold this shard, by trainer
};

// Adds arrays as a binary tree whose leaves come in order: the sum of 2^n of them is that of the
// first and of the second half, however they are spread over ranks. Memory: one array per level.
class TreeSum {
 public:
  explicit TreeSum(kernels::AddDenseFn add) : add_(add) {}

  // Takes over an array's contents; leaves are counted from 0 after each Finish.
  void Add(std::vector<float>&& leaf);
  // The sum of all, whose number is a power of two.
  std::vector<float> Finish();

 private:
  kernels::AddDenseFn add_;
  std::vector<std::vector<float>> levels_;  // levels_[l]: the pending sum of 2^l leaves, or empty
};

// Collective: those of all ranks, in their order.
StatusOr<std::vector<Digest>> GatherDigests(Communicator& group, std::span<const Digest> mine,
                                            Deadline deadline);

// Not thread-safe. With one rank per trainer nothing is exchanged.
class TrainerRanks {
 public:
  // group: null for one rank; must outlive this. shards: of the whole arrays, one per rank.
  // memory_bytes: bound of the buffers, equal on all ranks; longer shards go in segments.
  TrainerRanks(Communicator* group, std::vector<ElementRange> shards, kernels::AddDenseFn add,
               uint64_t memory_bytes);

  uint32_t ranks() const { return static_cast<uint32_t>(shards_.size()); }
  uint32_t shard() const { return shard_; }
  ElementRange range() const { return shards_[shard_]; }
  uint64_t elements() const { return shards_.back().end; }  // of the whole arrays

  // Collective among the trainer's ranks, as the next two are: true if it is so on all of them.
  StatusOr<bool> All(bool mine, Deadline deadline);

  // whole: overwritten with the shards of all ranks.
  Status Gather(std::span<const float> shard, std::span<float> whole, Deadline deadline);

  // shard: overwritten with this rank's range of the sum over the ranks' `whole`, added as a binary
  // tree. Each rank adds up its own range.
  Status ReduceScatter(std::span<const float> whole, std::span<float> shard, Deadline deadline);

 private:
  Communicator* group_;
  std::vector<ElementRange> shards_;
  uint64_t longest_ = 0;  // shard
  kernels::AddDenseFn add_;
  uint64_t segment_elements_ = 0;
  uint32_t shard_ = 0;
};

}  // namespace pulse::loco
