#include "loco/loop.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/arithmetic/arithmetic.h"
#include "loco/busy_signal.h"
#include "loco/rank_name.h"

namespace pulse::loco {
namespace {

// Initial weights sent at a time; and what their bytes take: as they lie, sealed, received, whole.
constexpr uint64_t kMostBroadcastBytes = uint64_t{64} << 20, kBroadcastCopies = 4;
// A busy rank speaks so often per deadline: a late word is not yet a missing one.
constexpr int64_t kWordsPerDeadline = 4;

std::optional<CheckedCommunicator> Checked(Communicator* communicator) {
  if (communicator == nullptr) return std::nullopt;
  return std::optional<CheckedCommunicator>(std::in_place, *communicator);
}

}  // namespace

// What one round gathers on its way.
struct Loop::Round {
  const Status& local;  // of this rank since the last meeting
  const std::atomic<bool>& stop_requested;
  RoundReport report = {};
  RankClosing closing = {};
  Decision decision = {};
  std::vector<uint64_t> entries = {}, payload_bytes = {};  // by trainer, from the last table
};

StatusOr<std::unique_ptr<Loop>> Loop::Make(Options options, Trainer& trainer,
                                           Communicator& communicator,
                                           const kernels::KernelTable& kernels, const Clock& clock,
                                           Logger& logger, const Topology& topology,
                                           const MakeArrays& make_arrays) {
  const auto ranks = static_cast<uint32_t>(communicator.size());
  const uint32_t shards = options.ranks_per_trainer;
  if (shards == 0 || ranks % shards != 0) {
    return InvalidArgument("{} ranks can't be trainers of {} ranks each", ranks, shards);
  }
  if (shards > 1 && (topology.trainer == nullptr || topology.peers == nullptr)) {
    return Internal("trainers of {} ranks without communicators of their own", shards);
  }
  PULSE_RETURN_IF_ERROR(Validate(options, ranks / shards));
  PULSE_ASSIGN_OR_RETURN(auto runs, ViewRunsOf(trainer.schema()));
  PULSE_ASSIGN_OR_RETURN(auto masters, MasterSchema(trainer.schema()));
  std::unique_ptr<Loop> loop(new Loop(std::move(options), trainer, communicator, kernels, clock,
                                      logger, topology, std::move(runs), std::move(masters)));
  PULSE_ASSIGN_OR_RETURN(
      loop->arrays_,
      make_arrays({loop->options_, trainer,
                   loop->peers_ ? static_cast<Communicator&>(*loop->peers_) : loop->communicator_,
                   loop->trainer_group_ ? &*loop->trainer_group_ : nullptr, loop->trainer(),
                   loop->trainers(), loop->cuts_, loop->kernels_, clock, loop->masters_,
                   loop->runs_}));
  return loop;
}

Loop::Loop(Options options, Trainer& trainer, Communicator& communicator,
           const kernels::KernelTable& kernels, const Clock& clock, Logger& logger,
           const Topology& topology, std::vector<ViewRun> runs, ModelSchema masters)
    : options_(std::move(options)),
      trainer_(trainer),
      communicator_(communicator),
      trainer_group_(Checked(shards() == 1 ? nullptr : topology.trainer)),
      peers_(Checked(topology.peers)),
      kernels_(kernels),
      clock_(clock),
      logger_(logger),
      masters_(std::move(masters)),
      fingerprint_(FingerprintOf(options_, trainers(), trainer.schema())),
      runs_(std::move(runs)),
      cuts_(CutIntoShards(trainer.schema(), shards())),
      range_(cuts_[static_cast<size_t>(communicator_.rank()) % shards()]),
      drops_(logger, trainers()) {}

StatusOr<RunEnd> Loop::Run(RoundObserver& observer, const std::atomic<bool>& stop_requested,
                           Checkpointer* checkpoints) {
  checkpoints_ = checkpoints;
  Status local;
  const Status started = Start(observer, local);
  if (!started.ok()) return Annotate(started, "start of the run");
  bool stopping = false;
  while (state().round < options_.rounds && !stopping) {
    auto report = RunRound(local, stop_requested);
    if (!report.ok()) return Annotate(report.status(), fmt::format("round {}", state().round + 1));
    stopping = report->stopping;
    const bool last = stopping || state().round == options_.rounds;
    if (observer.ReadsTheta(state().round, last)) {
      local = arrays_->Bring(Arrays::Which::kTheta, NextDeadline());
    }
    if (local.ok()) {
      const Status told = WhileBusy([&] { local = observer.OnRound(state(), *report); });
      if (!told.ok()) return Annotate(told, fmt::format("round {}", state().round + 1));
    }
    if (checkpoints_ != nullptr && checkpoints_->Due(state().round, last)) {
      const Status taken = TakeCheckpoint(observer, report->theta, local);
      if (!taken.ok()) return Annotate(taken, fmt::format("after round {}", state().round));
    }
  }
  const Status ended = End(local);
  if (!ended.ok()) return Annotate(ended, "end of the run");
  return state().round == options_.rounds ? RunEnd::kAllRounds : RunEnd::kStopped;
}

Status Loop::Start(RoundObserver& observer, Status& local) {
  const Deadline deadline = Deadline::After(clock_, options_.start_deadline_ms);
  RankStatus row = {.phase = Phase::kStart};
  // Before the initial weights, which may take long.
  PULSE_RETURN_IF_ERROR(MeetOthers(row, OkStatus(), deadline).status());
  if (communicator_.rank() == 0) {
    logger_.info("{}: {} trainers of {} ranks, {} elements, {} kernels, arrays on {}, exchange {}",
                 NameOf(options_.mode), trainers(), shards(), masters_.elements(), kernels_.name,
                 arrays_->place(), NameOf(options_.exchange));
  }
  std::optional<CommitRecord> resumed;
  if (checkpoints_ != nullptr && checkpoints_->resumes()) {
    PULSE_ASSIGN_OR_RETURN(resumed, checkpoints_->Restore(fingerprint_, mutable_state(), deadline));
    if (resumed) PULSE_RETURN_IF_ERROR(arrays_->TakeState(deadline));
  } else if (checkpoints_ != nullptr) {
    PULSE_RETURN_IF_ERROR(checkpoints_->RequireNone(deadline));
  }
  row.step = 1;
  if (!resumed) PULSE_RETURN_IF_ERROR(StartAnew(row, deadline));
  RankClosing closing;
  PULSE_ASSIGN_OR_RETURN(ShardDigests digests, TakeDigests(closing.theta));
  PULSE_ASSIGN_OR_RETURN(const auto closings, CloseWith(closing, std::move(digests)));
  if (resumed && resumed->theta != closings.front().theta) {
    return DataLoss(
        "theta as it was read from the checkpoint has another digest than was committed");
  }
  PULSE_RETURN_IF_ERROR(WhileBusy([&] {
    local = resumed ? observer.OnResume(state(), resumed->notes) : observer.OnStart(state());
  }));
  if (resumed || checkpoints_ == nullptr) return OkStatus();
  // Waited for: from here on there is always a checkpoint to go back to.
  PULSE_RETURN_IF_ERROR(TakeCheckpoint(observer, closings.front().theta, local));
  return FinishCheckpoint(local);
}

Status Loop::StartAnew(RankStatus row, Deadline deadline) {
  Status local = OkStatus();
  std::vector<float> apart;       // where this rank has a shard of theta alone
  std::span<float> weights = {};  // rank 0's, whole
  if (communicator_.rank() == 0) {
    if (shards() > 1) apart.resize(masters_.elements());
    weights = shards() > 1 ? std::span(apart) : std::span(mutable_state().theta);
    if (checkpoints_ != nullptr && checkpoints_->resumes()) {
      logger_.warn("there is no checkpoint to resume: starting from the beginning");
    }
    local = Annotate(trainer_.InitialWeights(weights), "initial weights");
    if (local.ok() && !AllBelow(weights, kWeightBound)) {
      local = InvalidArgument("the initial weights are not finite");
    }
  }
  PULSE_RETURN_IF_ERROR(MeetOthers(row, local, deadline).status());
  return TakeInitialWeights(weights, deadline);
}

Status Loop::TakeCheckpoint(RoundObserver& observer, const Digest& theta, Status& local) {
  // Where the one before is not everywhere yet, the disk is slower than the rounds.
  PULSE_RETURN_IF_ERROR(FinishCheckpoint(local));
  PULSE_RETURN_IF_ERROR(WhileBusy([&] { checkpoints_->WaitForWriter(); }));
  if (local.ok()) local = arrays_->Bring(Arrays::Which::kAll, NextDeadline());
  if (local.ok()) local = checkpoints_->Begin(state(), theta, observer.CheckpointNotes());
  return OkStatus();
}

Status Loop::FinishCheckpoint(const Status& local) {
  RankStatus row = {.phase = Phase::kCheckpoint, .round = state().round};
  for (; checkpoints_->pending(); ++row.step) {
    PULSE_RETURN_IF_ERROR(WhileBusy([&] { checkpoints_->WaitForWriter(); }));
    PULSE_RETURN_IF_ERROR(MeetOthers(row, local, NextDeadline()).status());
  }
  return OkStatus();
}

// The last observer's and the last checkpoint's errors have no next round to travel in.
Status Loop::End(const Status& local) {
  if (communicator_.rank() == 0) drops_.End();
  if (checkpoints_ != nullptr) {
    PULSE_RETURN_IF_ERROR(FinishCheckpoint(local));
    // Who leaves first may end the job: until old checkpoints are removed, too.
    PULSE_RETURN_IF_ERROR(WhileBusy([&] { checkpoints_->WaitForWriter(); }));
  }
  const RankStatus row = {.phase = Phase::kEnd, .round = state().round};
  return MeetOthers(row, local, NextDeadline()).status();
}

StatusOr<Meeting> Loop::MeetOthers(RankStatus row, const Status& local, Deadline deadline) {
  for (;; deadline = NextDeadline()) {
    Status mine = local;
    if (checkpoints_ != nullptr) {
      row.checkpoint = checkpoints_->ready();
      if (mine.ok()) mine = checkpoints_->status();
    }
    PULSE_ASSIGN_OR_RETURN(Meeting meeting, Meet(communicator_, row, mine, fingerprint_,
                                                 options_.on_non_finite, deadline, shards()));
    if (meeting.busy) continue;
    if (checkpoints_ != nullptr) {
      std::vector<uint64_t> ready;
      for (const RankStatus& rank : meeting.table) ready.push_back(rank.checkpoint);
      PULSE_RETURN_IF_ERROR(checkpoints_->OnTable(ready, fingerprint_, deadline));
    }
    return meeting;
  }
}

Status Loop::WhileBusy(const std::function<void()>& work) {
  const RankStatus row = {.phase = Phase::kExchange, .round = state().round, .busy = true};
  BusySignal signal(clock_,
                    {.interval_ms = options_.deadline_ms / kWordsPerDeadline,
                     .longest_ms = options_.start_deadline_ms},
                    [&] {
                      return Meet(communicator_, row, OkStatus(), fingerprint_,
                                  options_.on_non_finite, NextDeadline(), shards())
                          .status();
                    });
  work();
  return signal.End();
}

StatusOr<ShardDigests> Loop::TakeDigests(Digest& theta) {
  PULSE_ASSIGN_OR_RETURN(ShardDigests digests, arrays_->Digests(masters_, NextDeadline()));
  if (!trainer_group_) {
    theta = ViewDigest(masters_, std::span(digests.tensors).first(masters_.tensors().size()));
    return digests;
  }
  PULSE_ASSIGN_OR_RETURN(const auto chunks,
                         GatherDigests(*trainer_group_, digests.theta_chunks, NextDeadline()));
  PULSE_ASSIGN_OR_RETURN(theta, ViewDigestOfChunks(masters_, chunks));
  return digests;
}

StatusOr<std::vector<RankClosing>> Loop::CloseWith(const RankClosing& mine, ShardDigests digests) {
  PULSE_ASSIGN_OR_RETURN(
      auto closings,
      CloseRound(communicator_, masters_, SharedArraysOf(options_.mode, state(), range_.begin),
                 digests.tensors, mine, NextDeadline(), shards()));
  agreed_ = std::move(digests.tensors);
  return closings;
}

// Updates are decoded by theta: a wrong bit in it may show here, before digests are compared; and
// others, who can't decode what this rank sent, may be gone already.
Status Loop::ExplainFailedSum(const Status& error) {
  if (options_.mode == Mode::kDdp) return error;  // theta has moved since it was compared
  const auto now = arrays_->Digests(masters_, NextDeadline());
  if (!now.ok()) return error;
  const std::string mine = NameRank(communicator_, static_cast<size_t>(communicator_.rank()));
  for (size_t i = 0; i < masters_.tensors().size(); ++i) {
    if (now->tensors[i] == agreed_[i]) continue;
    return DataLoss(
        "theta has changed since the ranks compared it: tensor \"{}\" on {}; nothing of this round "
        "was committed: restart from the last checkpoint, and suspect the hardware of that rank "
        "({})",
        masters_.tensors()[i].name, mine, ToStd(error.message()));
  }
  if (!absl::IsDataLoss(error)) return error;
  return DataLoss("{} (theta of {} is as the ranks compared it)", ToStd(error.message()), mine);
}

Status Loop::TakeInitialWeights(std::span<const float> weights, Deadline deadline) {
  const uint64_t most = std::clamp<uint64_t>(options_.exchange_memory_bytes / kBroadcastCopies,
                                             sizeof(float), kMostBroadcastBytes) /
                        sizeof(float);
  std::vector<float>& theta = mutable_state().theta;
  for (uint64_t at = 0; at < masters_.elements(); at += most) {
    const uint64_t length = std::min(most, masters_.elements() - at);
    Bytes piece;
    if (communicator_.rank() == 0) {
      const ByteView bytes = AsBytes(weights.subspan(at, length));
      piece.assign(bytes.begin(), bytes.end());
    }
    PULSE_RETURN_IF_ERROR(communicator_.Broadcast(0, piece, deadline));
    if (piece.size() != length * sizeof(float)) {
      return DataLoss("rank 0 sent {} bytes of initial weights, not {}", piece.size(),
                      length * sizeof(float));
    }
    // What it has of this shard.
    const uint64_t begin = std::max(at, range_.begin), end = std::min(at + length, range_.end);
    if (begin >= end) continue;
    std::memcpy(&theta[begin - range_.begin], piece.data() + (begin - at) * sizeof(float),
                (end - begin) * sizeof(float));
  }
  return arrays_->TakeTheta(deadline);
}

StatusOr<RoundReport> Loop::RunRound(const Status& local, const std::atomic<bool>& stop_requested) {
  Round round = {.local = local, .stop_requested = stop_requested};
  RoundReport& report = round.report;
  report.round = state().round + 1;
  report.elements = masters_.elements();
  report.trainers = trainers();
  report.mode = options_.mode;
  report.rollout_weights = options_.rollout_weights;
  report.dense_diloco_bytes = DenseBytes(range_.length(), report.trainers);
  report.ddp_bytes = report.dense_diloco_bytes * options_.local_steps;
  report.skipped = true;
  if (shards() > 1) {
    // The ranks of a trainer wait for each other within their steps, where none can say that it is
    // busy: so nobody begins before all can.
    PULSE_RETURN_IF_ERROR(
        MeetOthers({.phase = Phase::kBeginning, .round = state().round}, local, NextDeadline())
            .status());
  }
  PULSE_RETURN_IF_ERROR(options_.mode == Mode::kDdp ? DdpRound(round) : LocalRound(round));
  PULSE_RETURN_IF_ERROR(Close(round));
  ++mutable_state().round;
  return std::move(report);
}

StatusOr<InnerResult> Loop::Train(Round& round, uint64_t step) {
  PULSE_RETURN_IF_ERROR(round.local);
  const PhaseTimer timer(clock_, round.closing.seconds.compute);
  PULSE_ASSIGN_OR_RETURN(InnerResult inner, options_.mode == Mode::kDdp
                                                ? arrays_->TakeGradient(step)
                                                : arrays_->TakeLocalSteps());
  if (!inner.error.ok() && !trainer_fails_) {
    logger_.warn("round {}: dropped for an error (the first of any that follow at once): {}",
                 round.report.round, ToStd(inner.error.message()));
  }
  trainer_fails_ = !inner.error.ok();
  // What a trainer links may have switched this thread to flushing denormals.
  PULSE_RETURN_IF_ERROR(kernels::CheckArithmetic());
  return inner;
}

StatusOr<Contributed> Loop::Contribute(Round& round, bool usable) {
  const PhaseTimer timer(clock_, round.closing.seconds.gate);
  return arrays_->Contribute(usable);
}

Status Loop::AgreeOnStep(Round& round, uint64_t step, const StatusOr<InnerResult>& inner,
                         const Contributed& mine) {
  RankStatus row = {.phase = Phase::kExchange, .round = state().round, .step = step};
  row.finite = !inner.ok() || inner->finite;
  row.stop_requested = round.stop_requested.load();
  row.entries = mine.entries;
  row.payload_bytes = mine.payload_bytes;
  const PhaseTimer timer(clock_, round.closing.seconds.meet);
  PULSE_ASSIGN_OR_RETURN(Meeting meeting, MeetOthers(row, inner.status(), NextDeadline()));
  RoundReport& report = round.report;
  report.stopping |= meeting.decision.stop;
  report.entries = 0;
  round.entries.clear();
  round.payload_bytes.clear();
  for (const RankStatus& rank : meeting.table) report.entries += rank.entries;
  for (uint32_t k = 0; k < trainers(); ++k) {
    const RankStatus& peer =
        meeting.table[k * shards() + static_cast<uint32_t>(communicator_.rank()) % shards()];
    round.entries.push_back(peer.entries);
    round.payload_bytes.push_back(peer.payload_bytes);
    if (meeting.decision.contributes[k] != 0) continue;
    if (std::find(report.dropped.begin(), report.dropped.end(), k) == report.dropped.end()) {
      report.dropped.push_back(k);
    }
  }
  if (communicator_.rank() == 0) drops_.Note(report.round, step, meeting.decision.contributes);
  const double possible =
      static_cast<double>(meeting.decision.contributors) * static_cast<double>(report.elements);
  report.gate_density = possible > 0 ? static_cast<double>(report.entries) / possible : 0;
  round.decision = std::move(meeting.decision);
  return OkStatus();
}

Status Loop::SumContributions(Round& round) {
  const PhaseTimer timer(clock_, round.closing.seconds.exchange);
  const Status summed = arrays_->Sum({.contributes = round.decision.contributes,
                                      .entries = round.entries,
                                      .codec = CodecOf(options_),
                                      .theta = {}},
                                     round.payload_bytes, NextDeadline());
  if (!summed.ok()) return ExplainFailedSum(summed);
  const Traffic traffic = arrays_->traffic();
  round.closing.traffic.sent += traffic.sent;
  round.closing.traffic.received += traffic.received;
  round.closing.traffic.contribution += traffic.contribution;
  RoundReport& report = round.report;
  const Estimate& estimate = arrays_->estimate();
  report.exchange = NameOf(estimate.kind);
  report.estimate.rank_bytes += estimate.rank_bytes;
  report.estimate.link_bytes += estimate.link_bytes;
  report.estimate.seconds += estimate.seconds;
  report.skipped = false;
  return OkStatus();
}

// Pulseloco and diloco: one meeting and one exchange, after H steps of one's own.
Status Loop::LocalRound(Round& round) {
  const auto inner = Train(round, 0);
  const bool usable = inner.ok() && inner->finite;
  // The gate changes the residual: a trainer that will be dropped must not pass it.
  const auto mine = Contribute(round, usable);
  PULSE_RETURN_IF_ERROR(
      AgreeOnStep(round, 0, mine.ok() ? inner : mine.status(), mine.ok() ? *mine : Contributed{}));
  if (usable) {
    round.closing.metrics = inner->metrics;
  } else {
    PULSE_RETURN_IF_ERROR(arrays_->TakeBack());
  }
  if (round.decision.contributors == 0) return OkStatus();
  PULSE_RETURN_IF_ERROR(SumContributions(round));
  const PhaseTimer timer(clock_, round.closing.seconds.outer);
  PULSE_ASSIGN_OR_RETURN(round.closing.view_changes, arrays_->TakeOuterStep());
  return OkStatus();
}

// Ddp: a meeting and an exchange at every step; every rank takes the same AdamW step on theta.
Status Loop::DdpRound(Round& round) {
  PULSE_RETURN_IF_ERROR(arrays_->BeginDdpRound());
  for (uint64_t step = 0; step < options_.local_steps; ++step) {
    const auto inner = Train(round, step);
    const bool usable = inner.ok() && inner->finite;
    const auto mine = arrays_->Contribute(usable);
    PULSE_RETURN_IF_ERROR(AgreeOnStep(round, step, mine.ok() ? inner : mine.status(),
                                      mine.ok() ? *mine : Contributed{}));
    if (usable) {
      for (const auto& [name, value] : inner->metrics) round.closing.metrics[name] += value;
    }
    if (round.decision.contributors == 0) continue;
    PULSE_RETURN_IF_ERROR(SumContributions(round));
    const PhaseTimer timer(clock_, round.closing.seconds.outer);
    PULSE_RETURN_IF_ERROR(arrays_->TakeDdpStep());
  }
  const PhaseTimer timer(clock_, round.closing.seconds.outer);
  PULSE_ASSIGN_OR_RETURN(round.closing.view_changes, arrays_->CountChanged());
  return OkStatus();
}

Status Loop::Close(Round& round) {
  RoundReport& report = round.report;
  ShardDigests digests;
  {
    const PhaseTimer timer(clock_, round.closing.seconds.digest);
    PULSE_ASSIGN_OR_RETURN(digests, TakeDigests(round.closing.theta));
    PULSE_ASSIGN_OR_RETURN(round.closing.theta_is_usable, arrays_->ThetaIsUsable());
  }
  double waited = 0;
  bool usable = true;
  {
    const PhaseTimer timer(clock_, waited);
    PULSE_ASSIGN_OR_RETURN(const auto closings, CloseWith(round.closing, std::move(digests)));
    SumClosings(closings, shards(), report);
    report.theta = closings.front().theta;
    for (const RankClosing& closing : closings) usable &= closing.theta_is_usable;
  }
  if (!usable) {
    return InvalidArgument("theta has diverged to non-finite weights; lower the learning rates");
  }
  if (!report.skipped) arrays_->Learn(report.slowest.exchange);
  report.traffic = round.closing.traffic;
  report.seconds = round.closing.seconds;
  report.seconds.digest += waited;
  std::sort(report.dropped.begin(), report.dropped.end());
  report.view_change_density = report.elements > 0 ? static_cast<double>(report.view_changes) /
                                                         static_cast<double>(report.elements)
                                                   : 0;
  return OkStatus();
}

}  // namespace pulse::loco
