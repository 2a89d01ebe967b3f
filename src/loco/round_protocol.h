// The meeting before every payload: a small fixed-size exchange of what each rank brings. Whatever
// changes who calls what afterwards (a drop, a skip, a stop, an error) is decided from this table
// alone, which is the same on all ranks, so no rank can be alone in a collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "core/bytes.h"
#include "core/deadline.h"
#include "core/digest.h"
#include "core/status.h"
#include "loco/fingerprint.h"
#include "loco/options.h"

namespace pulse::loco {

enum class Phase : uint8_t { kStart = 0, kExchange = 1, kEnd = 2, kCheckpoint = 3, kBeginning = 4 };

// One rank's row.
struct RankStatus {
  Phase phase = Phase::kStart;
  uint64_t round = 0;  // rounds completed before this one
  uint64_t step = 0;   // ddp meets at every local step of a round; 0 elsewhere
  Digest fingerprint = {};
  absl::StatusCode code = absl::StatusCode::kOk;  // of what this rank did since the last meeting
  bool finite = true;                             // its contribution can be used
  bool stop_requested = false;
  bool busy = false;           // at long work of its own: the others are to meet again
  uint64_t entries = 0;        // of its contribution
  uint64_t payload_bytes = 0;  // of its contribution, as the exchange encodes it
  uint64_t checkpoint = 0;     // Checkpointer::ready()
};

inline constexpr size_t kRankStatusBytes = 64;

Bytes EncodeRankStatus(const RankStatus& status);
// kDataLoss for any bytes that EncodeRankStatus does not write.
StatusOr<RankStatus> DecodeRankStatus(ByteView bytes);

// What a table decides.
struct Decision {
  std::vector<uint8_t> contributes;  // per trainer: 1 unless it is dropped
  uint32_t contributors = 0;         // 0: the round (the step, in ddp) is skipped
  bool stop = false;                 // some rank asked to: stop after this round
};

// communicator: knows the ranks' hosts. shards: ranks per trainer; a trainer contributes if all its
// ranks can. Same table, same decision. kFailedPrecondition names ranks that are at another round,
// step or phase than most; kInvalidArgument names trainers with non-finite contributions, and their
// ranks, where those stop the run. Fingerprints and codes are Meet's.
StatusOr<Decision> Decide(const Communicator& communicator, std::span<const RankStatus> table,
                          OnNonFinite on_non_finite, uint32_t shards = 1);

struct Meeting {
  std::vector<RankStatus> table;  // by rank
  Decision decision;
  bool busy = false;  // some rank is: nothing is decided, and all meet again
};

// Collective: exchanges `mine`, whose fingerprint and code this call fills in, and decides.
// local: an error of this rank since the last meeting, which ends the run everywhere.
// Errors, the same on all ranks up to who is named first, all naming ranks with their hosts:
// kInvalidArgument for a configuration that differs (a second exchange fetches the texts and names
// the fields); the code of the lowest rank
// that failed, with its message (a rank that failed gets its own error back); Decide's; a row that
// can't be read is kDataLoss.
StatusOr<Meeting> Meet(Communicator& communicator, RankStatus mine, const Status& local,
                       const Fingerprint& fingerprint, OnNonFinite on_non_finite, Deadline deadline,
                       uint32_t shards = 1);

}  // namespace pulse::loco
