// Training checkpoints of one rank: taken between rounds, written while training goes on, committed
// by all ranks together; and the way back (docs/design.md, "Resume").
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"
#include "core/deadline.h"
#include "core/digest.h"
#include "core/log.h"
#include "core/schema.h"
#include "core/status.h"
#include "loco/checkpoint/checkpoint_folder.h"
#include "loco/checkpoint/commit_record.h"
#include "loco/checkpoint/part_file.h"
#include "loco/fingerprint.h"
#include "loco/round_observer.h"
#include "loco/state.h"
#include "store/filesystem.h"

namespace pulse::loco {

struct CheckpointOptions {
  std::string folder;   // the same for all ranks, or each host's own
  uint64_t every = 10;  // rounds; also at the start and at the end of a run; at least 1
  uint64_t keep = 2;    // committed checkpoints that stay; at least 1
  bool resume = false;  // start from the newest checkpoint, if there is any
};

// This rank's share of the state.
struct CheckpointPlace {
  PartId id;
  uint32_t trainers = 1;
  ElementRange range;
  const ModelSchema* schema = nullptr;  // of the whole; must outlive whoever is given the place
};

// Rank `rank` of `ranks`, where a trainer has `ranks_per_trainer`.
CheckpointPlace PlaceOf(int rank, int ranks, uint32_t ranks_per_trainer, const ModelSchema& schema);

// One checkpoint is under way at a time. Its life on a rank:
//   Begin     copies the state (20 bytes a parameter in pulseloco) and starts to write, in a thread
//   ready()   travels in every status table: the part is durable here
//   OnTable   once it is on all ranks: they exchange what their parts hash to, and each starts to
//             write the one commit record, in a thread again. Once that is on all ranks, the
//             checkpoint counts, and a thread removes old ones.
// Dying anywhere leaves the committed checkpoint before; at most `keep` + 1 are on disk, beside the
// one under way. Used by the loop's thread. Errors of the writing thread appear in status().
class Checkpointer {
 public:
  // fs, communicator, clock and logger must outlive it.
  Checkpointer(CheckpointOptions options, CheckpointPlace place, Filesystem& fs,
               Communicator& communicator, const Clock& clock, Logger& logger);
  ~Checkpointer();

  bool resumes() const { return options_.resume; }

  // Collective. Loads the newest checkpoint that all ranks have into `state`, whose arrays are as
  // long as the place's range, and returns its record; tries the one before where a part is damaged
  // (with a warning: the rounds between are computed again, to the same bits). Nothing if there is
  // none at all. Removes what is newer than it, or belongs to none. kInvalidArgument: it is of
  // another configuration (naming the settings), or of another number of trainers; kNotFound: ranks
  // see no common checkpoint; kDataLoss: none is whole.
  StatusOr<std::optional<CommitRecord>> Restore(const Fingerprint& fingerprint, State& state,
                                                Deadline deadline);

  // Collective, for a run that starts anew. kAlreadyExists if the folder holds checkpoints.
  Status RequireNone(Deadline deadline);

  // True after rounds at which a checkpoint is to be taken.
  bool Due(uint64_t round, bool last) const { return last || round % options_.every == 0; }

  // True from a Begin that did not fail until the checkpoint counts.
  bool pending() const;

  // Takes the state after an agreed round, with its theta's digest, while nothing is pending.
  // notes: rank 0's are kept.
  Status Begin(const State& state, const Digest& theta, Notes notes);

  // For the status table: which part is durable here, or its commit record too, and does not count
  // yet; 0: none.
  uint64_t ready() const;

  // Waits until what is being written here is durable, or failed, and what is removed is gone.
  void WaitForWriter();

  // Collective if all ranks are `ready` with one round (rows of one table, equal on all ranks).
  Status OnTable(const std::vector<uint64_t>& ready, const Fingerprint& fingerprint,
                 Deadline deadline);

  // Of the writing thread; to be told to all ranks in the next table. Stays.
  Status status() const;

 private:
  struct Writing;
  StatusOr<std::vector<CommitRecord>> Committed() const;
  StatusOr<std::vector<PartHeader>> PartsToRead(const CommitRecord& record) const;
  Status Load(const CommitRecord& record, const Fingerprint& fingerprint, State& state) const;
  Status RemoveAllBut(const std::vector<uint64_t>& kept) const;
  // Runs `work` on the writing thread, with its error in status().
  void Write(std::function<Status()> work);
  Status Commit(const Fingerprint& fingerprint, Deadline deadline);
  void Count();
  Status AgreeOn(const Status& local, Deadline deadline);

  CheckpointOptions options_;
  CheckpointPlace place_;
  Filesystem& fs_;
  Communicator& communicator_;
  const Clock& clock_;
  Logger& logger_;
  CheckpointFolder folder_;
  std::vector<uint64_t> committed_;  // ascending
  std::unique_ptr<Writing> writing_;
};

}  // namespace pulse::loco
