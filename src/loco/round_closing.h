// The meeting after every outer step: digests of all that must be equal on every rank are compared
// before anything of the round may be committed, and figures are added up.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collective/communicator.h"
#include "core/bytes.h"
#include "core/deadline.h"
#include "core/digest.h"
#include "core/schema.h"
#include "core/status.h"
#include "core/workers.h"
#include "loco/exchange/exchange.h"
#include "loco/report.h"
#include "loco/state.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// One rank's figures of a round; metrics are left out by a dropped trainer.
struct RankClosing {
  Digest theta;   // ViewDigest as F32
  Digest shared;  // over the digests of this shard of all shared arrays
  Traffic traffic;
  PhaseSeconds seconds;
  uint64_t view_changes = 0;    // in this rank's shard
  bool theta_is_usable = true;  // all of its shard
  Metrics metrics;
};

Bytes EncodeRankClosing(const RankClosing& closing);
// kDataLoss for any bytes that EncodeRankClosing does not write.
StatusOr<RankClosing> DecodeRankClosing(ByteView bytes);

// `schema` with the dtype F32 for every tensor: what theta is.
// kInvalidArgument if it gets too large that way.
StatusOr<ModelSchema> MasterSchema(const ModelSchema& schema);

// A flat array that must be equal on all ranks: theta first of all, but also what makes the next
// theta (the outer momentum; in ddp AdamW's moments), where a difference may hide for a while.
struct SharedArray {
  std::string_view name;
  std::span<const float> values;  // elements [begin, begin + size) of the flat array
  uint64_t begin = 0;
};

// This shard of the arrays that must be equal in such a mode, which begins at that element; theta
// first. The spans are state's; where its arrays are elsewhere (loco/arrays.h) only the names
// count.
std::vector<SharedArray> SharedArraysOf(Mode mode, const State& state, uint64_t begin);

// Of an array that begins where a chunk does.
struct ArrayDigests {
  std::vector<Digest> chunks;   // of all tensors in turn
  std::vector<Digest> tensors;  // one per tensor of the schema: of what the array has of it
};
ArrayDigests DigestsOf(const ModelSchema& masters, const SharedArray& array, Workers& workers);

// Of this shard of all arrays that must be equal.
struct ShardDigests {
  std::vector<Digest> theta_chunks;  // may be left out where a trainer has one rank
  std::vector<Digest> tensors;       // array by array
};

// Collective: exchanges `mine` (whose `shared` is made here) and returns all rows, by rank. arrays:
// as SharedArraysOf gives them, digests: ShardDigests::tensors of them; shard r is equal on the
// ranks r, r + shards, r + 2 shards ... kDataLoss if any differs: a second exchange finds array and
// tensor; the message names them and the minority of ranks, or all where there is no majority.
StatusOr<std::vector<RankClosing>> CloseRound(Communicator& communicator,
                                              const ModelSchema& masters,
                                              std::span<const SharedArray> arrays,
                                              std::span<const Digest> digests, RankClosing mine,
                                              Deadline deadline, uint32_t shards = 1);

// Adds up the ranks' figures in rank order: metrics, traffic_of_all, view_changes (over the ranks
// of one trainer), most_received and slowest of `report`.
void SumClosings(std::span<const RankClosing> closings, uint32_t shards, RoundReport& report);

}  // namespace pulse::loco
