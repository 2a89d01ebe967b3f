// PULSELoCo's outer loop (arXiv 2602.03839; DiLoCo: arXiv 2311.08105): local AdamW steps, then an
// exchange of what the next forward pass would see, then one outer step on the shared weights.
// DiLoCo and DDP are modes of it. docs/design.md follows one round through it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/checked.h"
#include "collective/communicator.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/schema.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "loco/arrays.h"
#include "loco/checkpoint/checkpointer.h"
#include "loco/drop_log.h"
#include "loco/fingerprint.h"
#include "loco/host_arrays.h"
#include "loco/options.h"
#include "loco/report.h"
#include "loco/round_closing.h"
#include "loco/round_observer.h"
#include "loco/round_protocol.h"
#include "loco/state.h"
#include "loco/trainer_ranks.h"
#include "trainer/trainer.h"

namespace pulse::loco {

enum class RunEnd { kAllRounds, kStopped };

// One rank's side of the loop: rank k * R + r is shard r of trainer k. All ranks make one and call
// Run. Deterministic: theta depends on the options, the trainer and the number of trainers, not on
// R, kernel body, transport or timing. Not thread-safe. Memory beside the state: a gradient, copies
// of m and v, what the exchange holds; where R > 1 and the trainer computes no ranges also whole
// weights and gradients (loco/inner_phase.h), and on rank 0 the whole initial weights for a moment.
class Loop {
 public:
  // trainer, communicator (of all ranks), topology's, clock and logger must outlive the loop.
  // kInvalidArgument: options or a number of ranks out of range; kUnimplemented: a tensor whose
  // view is neither BF16 nor F32. make_arrays: where they live, and its errors. Not collective.
  static StatusOr<std::unique_ptr<Loop>> Make(Options options, Trainer& trainer,
                                              Communicator& communicator,
                                              const kernels::KernelTable& kernels,
                                              const Clock& clock, Logger& logger,
                                              const Topology& topology = {},
                                              const MakeArrays& make_arrays = HostArrays::Make);

  // Collective; once. Agrees on the configuration, takes rank 0's initial weights, runs the rounds.
  // stop_requested: may be set at any time, by any thread or signal handler, on any rank; all ranks
  // then end after the same round.
  // Errors end the run on all ranks: kInvalidArgument for configurations that differ or values that
  // have diverged; kFailedPrecondition for a rank at another round; kDataLoss if theta differs;
  // what a trainer, an observer or the checkpointer returned, on other ranks under its rank's name;
  // the communicator's errors.
  // checkpoints: null for none, on all ranks alike; must outlive the call. A run that it resumes
  // ends with the bits that it would have had unbroken.
  StatusOr<RunEnd> Run(RoundObserver& observer, const std::atomic<bool>& stop_requested,
                       Checkpointer* checkpoints = nullptr);

  // The counters are current; the arrays after BringState, where they live on a device.
  const State& state() const { return arrays_->state(); }
  Status BringState() { return arrays_->Bring(Arrays::Which::kAll, NextDeadline()); }

 private:
  struct Round;

  Loop(Options options, Trainer& trainer, Communicator& communicator,
       const kernels::KernelTable& kernels, const Clock& clock, Logger& logger,
       const Topology& topology, std::vector<ViewRun> runs, ModelSchema masters);

  // An error of the observer or the checkpointer comes back in `local`, to be told to all ranks at
  // the next meeting; the others end the run everywhere.
  Status Start(RoundObserver& observer, Status& local);
  Status StartAnew(RankStatus row, Deadline deadline);
  // weights: rank 0's, whole; on other ranks empty.
  Status TakeInitialWeights(std::span<const float> weights, Deadline deadline);
  Status TakeCheckpoint(RoundObserver& observer, const Digest& theta, Status& local);
  // Until the checkpoint under way, if any, counts.
  Status FinishCheckpoint(const Status& local);
  Status End(const Status& local);
  // Meet, with what the checkpointer has to say and to hear, again while a rank is busy.
  StatusOr<Meeting> MeetOthers(RankStatus row, const Status& local, Deadline deadline);
  // Calls `work`, which leaves the communicators alone, while the others are told that this rank is
  // busy. The error is of telling them.
  Status WhileBusy(const std::function<void()>& work);

  StatusOr<RoundReport> RunRound(const Status& local, const std::atomic<bool>& stop_requested);
  Status LocalRound(Round& round);
  Status DdpRound(Round& round);
  StatusOr<InnerResult> Train(Round& round, uint64_t step);
  StatusOr<Contributed> Contribute(Round& round, bool usable);
  Status AgreeOnStep(Round& round, uint64_t step, const StatusOr<InnerResult>& inner,
                     const Contributed& mine);
  Status SumContributions(Round& round);
  // theta: becomes the digest of all of it. Collective in the trainer.
  StatusOr<ShardDigests> TakeDigests(Digest& theta);
  StatusOr<std::vector<RankClosing>> CloseWith(const RankClosing& mine, ShardDigests digests);
  // `error`, or that this rank's theta is not what it was when the ranks compared theirs.
  Status ExplainFailedSum(const Status& error);
  Status Close(Round& round);
  Deadline NextDeadline() const { return Deadline::After(clock_, options_.deadline_ms); }
  uint32_t shards() const { return options_.ranks_per_trainer; }
  uint32_t trainers() const { return static_cast<uint32_t>(communicator_.size()) / shards(); }
  uint32_t trainer() const { return static_cast<uint32_t>(communicator_.rank()) / shards(); }
  State& mutable_state() { return arrays_->state(); }

  Options options_;
  Trainer& trainer_;
  CheckedCommunicator communicator_;  // every message of the loop passes this or the next two
  std::optional<CheckedCommunicator> trainer_group_;  // none where R = 1
  std::optional<CheckedCommunicator> peers_;          // none: communicator_
  kernels::KernelTable kernels_;
  const Clock& clock_;
  Logger& logger_;
  ModelSchema masters_;
  Fingerprint fingerprint_;
  std::vector<ViewRun> runs_;
  std::vector<ElementRange> cuts_;  // the shards of the whole arrays
  ElementRange range_;              // this one
  std::vector<Digest> agreed_;      // ShardDigests::tensors at the last closing
  DropLog drops_;
  bool trainer_fails_ = false;  // so did its last step
  std::unique_ptr<Arrays> arrays_;
  Checkpointer* checkpoints_ = nullptr;
};

}  // namespace pulse::loco
