#include "loco/device/device_arrays.h"

#include <algorithm>
#include <utility>

#include "core/sparse_update.h"

namespace pulse::loco {

using kernels::kScatterBlockElements;

StatusOr<std::unique_ptr<DeviceArrays>> DeviceArrays::Make(const ArraysParts& parts,
                                                           const DeviceDeps& deps,
                                                           const DeviceOptions& options) {
  if (parts.trainer_group != nullptr && !deps.trainer.computes_ranges()) {
    return Unimplemented(
        "this trainer computes whole gradients alone: on a device it needs loco.ranks_per_trainer "
        "1, not {}",
        parts.options.ranks_per_trainer);
  }
  Streams streams{.releases = std::make_unique<HeldReleases>(deps.driver)};
  for (std::optional<DeviceWork>* work : {&streams.work, &streams.encoding}) {
    PULSE_ASSIGN_OR_RETURN(
        *work, DeviceWork::Open(streams.releases->table(), deps.clock, options.staging));
  }
  std::unique_ptr<DeviceArrays> arrays(new DeviceArrays(parts, deps, options, std::move(streams)));
  PULSE_RETURN_IF_ERROR(Annotate(arrays->Allocate(), "arrays on the device"));
  return arrays;
}

DeviceArrays::DeviceArrays(const ArraysParts& parts, const DeviceDeps& deps,
                           const DeviceOptions& options, Streams streams)
    : options_(parts.options),
      device_options_(options),
      kernels_(deps.kernels),
      trainer_(deps.trainer),
      clock_(deps.clock),
      ranks_(parts.trainer_group, parts.shards, parts.kernels.reduce.add_dense,
             options_.exchange_memory_bytes),
      view_runs_(CutRuns(parts.runs, ranks_.range().begin, ranks_.range().end)),
      trainer_index_(parts.trainer_index),
      trainers_(parts.trainers),
      releases_(std::move(streams.releases)),
      work_(*std::move(streams.work)),
      encoding_(*std::move(streams.encoding)),
      digests_(work_, kernels_),
      tree_sum_(work_, kernels_),
      sum_({work_, encoding_, *releases_, kernels_, parts.peers, deps.peers,
            GroupBySite(options_.sites, trainers_), parts.kernels, options_.exchange_memory_bytes}),
      exchange_(parts.peers, parts.kernels, ExchangeOptionsFor(options_, trainers_)),
      state_(State::Zero(options_.mode, ranks_.range().length())) {}

Status DeviceArrays::Allocate() {
  const DeviceDriver& driver = work_.driver();
  const uint64_t n = ranks_.range().length();
  size_t room = 0;
  for (DeviceSpan<float>* array :
       {&theta_, &w_, &m_, &v_, &residual_, &momentum_, &m_before_, &v_before_, &scratch_}) {
    const bool used = array == &residual_   ? options_.mode == Mode::kPulseLoco
                      : array == &momentum_ ? options_.mode != Mode::kDdp
                                            : true;
    PULSE_ASSIGN_OR_RETURN(*array, rooms_[room++].Get<float>(driver, used ? n : 0));
    PULSE_RETURN_IF_ERROR(work_.Zero(*array));
  }
  PULSE_ASSIGN_OR_RETURN(count_, count_room_.Get<uint64_t>(driver, 1));
  std::vector<uint64_t> ends;
  std::vector<uint8_t> views;
  for (const ViewRun& run : view_runs_) {
    ends.push_back(run.end);
    views.push_back(static_cast<uint8_t>(run.view));
  }
  PULSE_ASSIGN_OR_RETURN(const auto end_room, run_ends_room_.Get<uint64_t>(driver, ends.size()));
  PULSE_ASSIGN_OR_RETURN(const auto view_room, run_views_room_.Get<uint8_t>(driver, views.size()));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint64_t>(ends), end_room, NextDeadline()));
  PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint8_t>(views), view_room, NextDeadline()));
  runs_ = {end_room.data, view_room.data, static_cast<uint32_t>(ends.size())};
  return OkStatus();
}

template <typename Visit>
Status DeviceArrays::ForEachArray(Visit visit) {
  PULSE_RETURN_IF_ERROR(visit(state_.theta, theta_));
  PULSE_RETURN_IF_ERROR(visit(state_.w, w_));
  PULSE_RETURN_IF_ERROR(visit(state_.m, m_));
  PULSE_RETURN_IF_ERROR(visit(state_.v, v_));
  PULSE_RETURN_IF_ERROR(visit(state_.residual, residual_));
  return visit(state_.outer_momentum, momentum_);
}

// The host's copies go, but for theta, which who starts the run looks at.
Status DeviceArrays::TakeState(Deadline deadline) {
  return ForEachArray([&](std::vector<float>& host, DeviceSpan<float> device) -> Status {
    PULSE_RETURN_IF_ERROR(work_.Up(std::span<const float>(host), device, deadline));
    if (&host != &state_.theta) host = std::vector<float>();
    return OkStatus();
  });
}

Status DeviceArrays::TakeTheta(Deadline deadline) {
  return TakeState(deadline);  // the others are zero on the host too
}

Status DeviceArrays::Bring(Which which, Deadline deadline) {
  return ForEachArray([&](std::vector<float>& host, DeviceSpan<float> device) -> Status {
    if (which == Which::kTheta && &host != &state_.theta) return OkStatus();
    host.resize(device.size);
    return work_.Down<float>(device, std::span(host), deadline);
  });
}

Status DeviceArrays::ClearCount() {
  return work_.Zero(count_);
}

StatusOr<uint64_t> DeviceArrays::ReadCount() {
  uint64_t count = 0;
  PULSE_RETURN_IF_ERROR(work_.Down<uint64_t>(count_, std::span(&count, 1), NextDeadline()));
  return count;
}

StatusOr<bool> DeviceArrays::IsBelow(DeviceSpan<const float> x, float bound) {
  PULSE_RETURN_IF_ERROR(ClearCount());
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.count_unbounded({x.data, bound, count_.data}, x.size, work_.stream()),
                "looking for values out of bounds"));
  PULSE_ASSIGN_OR_RETURN(const uint64_t unbounded, ReadCount());
  return unbounded == 0;
}

StatusOr<bool> DeviceArrays::All(const StatusOr<bool>& mine) {
  const auto all = ranks_.All(mine.ok() && *mine, NextDeadline());
  return mine.ok() ? all : mine;
}

// As InnerPhase::ComputeGradient, meeting by meeting: ranks of both kinds can share a trainer.
Status DeviceArrays::ComputeGradient(const Status& local, uint64_t step_in_round,
                                     DeviceSpan<const float> weights, InnerResult& result) {
  const StatusOr<bool> computed =
      local.ok() ? SumMicroBatches(step_in_round, weights, result) : local;
  PULSE_ASSIGN_OR_RETURN(result.finite, All(computed));
  if (!result.finite) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(result.finite, All(IsBelow(scratch_, kGradientBound)));
  return OkStatus();
}

// Each of a trainer's ranks adds up all micro-batches, of its own shard.
StatusOr<bool> DeviceArrays::SumMicroBatches(uint64_t step_in_round,
                                             DeviceSpan<const float> weights, InnerResult& result) {
  const uint32_t micro_batches = options_.micro_batches;
  tree_sum_.Start();
  for (uint32_t i = 0; i < micro_batches; ++i) {
    const LocalStep at = {.trainer = trainer_index_,
                          .trainers = trainers_,
                          .round = state_.round,
                          .step = state_.round * options_.local_steps + step_in_round,
                          .micro_batch = i,
                          .micro_batches = micro_batches};
    PULSE_RETURN_IF_ERROR(CallTrainer(at, weights, result));
    if (!result.finite) return false;
    if (micro_batches > 1) PULSE_RETURN_IF_ERROR(tree_sum_.Add(scratch_));
  }
  if (micro_batches > 1) PULSE_RETURN_IF_ERROR(tree_sum_.Finish(scratch_));
  return true;
}

Status DeviceArrays::CallTrainer(const LocalStep& at, DeviceSpan<const float> weights,
                                 InnerResult& result) {
  const bool global = options_.rollout_weights == RolloutWeights::kGlobal;
  const DeviceSpan<const float> rollout = global ? DeviceSpan<const float>(theta_) : weights;
  auto figures = ranks_.ranks() > 1
                     ? trainer_.GradientRange(at, ranks_.range().begin, weights, rollout, scratch_,
                                              work_.stream())
                     : trainer_.Gradient(at, weights, rollout, scratch_, work_.stream());
  if (!figures.ok()) {
    const Status error =
        Annotate(figures.status(), fmt::format("trainer {}, step {}", trainer_index_, at.step));
    if (options_.on_trainer_error == OnNonFinite::kStop) return error;
    result.finite = false;
    result.error = error;
    return OkStatus();
  }
  if (ranks_.shard() > 0) return OkStatus();  // all have the same figures
  for (const auto& [name, value] : *figures) result.metrics[name] += value;
  return OkStatus();
}

Status DeviceArrays::AdamW(DeviceSpan<float> w) {
  ++state_.step;
  const auto scalars = kernels::AdamWScalars::At(options_.inner, state_.step);
  return work_.Did(kernels_.adamw(scalars, {w, m_, v_, scratch_}, work_.stream()), "an AdamW step");
}

Status DeviceArrays::BeginLocalSteps() {
  step_before_ = state_.step;
  PULSE_RETURN_IF_ERROR(work_.Copy<float>(theta_, w_));
  PULSE_RETURN_IF_ERROR(work_.Copy<float>(m_, m_before_));
  return work_.Copy<float>(v_, v_before_);
}

StatusOr<bool> DeviceArrays::WeightsAreUsable() {
  PULSE_ASSIGN_OR_RETURN(const bool weights, IsBelow(w_, kWeightBound));
  PULSE_ASSIGN_OR_RETURN(const bool residual, IsBelow(residual_, kWeightBound));
  return weights && residual;
}

StatusOr<InnerResult> DeviceArrays::TakeLocalSteps() {
  Status local = BeginLocalSteps();
  InnerResult result;
  for (uint64_t step = 0; step < options_.local_steps; ++step) {
    PULSE_RETURN_IF_ERROR(ComputeGradient(local, step, w_, result));
    if (!result.finite) return result;
    local = AdamW(w_);
  }
  PULSE_ASSIGN_OR_RETURN(result.finite, All(local.ok() ? WeightsAreUsable() : local));
  return result;
}

Status DeviceArrays::TakeBack() {
  state_.step = step_before_;
  PULSE_RETURN_IF_ERROR(work_.Copy<float>(m_before_, m_));
  return work_.Copy<float>(v_before_, v_);
}

Status DeviceArrays::BeginDdpRound() {
  return work_.Copy<float>(theta_, w_);
}

StatusOr<InnerResult> DeviceArrays::TakeGradient(uint64_t step_in_round) {
  InnerResult result;
  PULSE_RETURN_IF_ERROR(ComputeGradient(OkStatus(), step_in_round, theta_, result));
  return result;
}

StatusOr<Contributed> DeviceArrays::Contribute(bool usable) {
  contributes_ = usable;
  if (usable && options_.mode == Mode::kPulseLoco) {
    PULSE_RETURN_IF_ERROR(Gate());
    return Contributed{.entries = update_.entries(),
                       .payload_bytes = exchange_.ExpectedBytes(update_.entries())};
  }
  if (!usable) return Contributed{};
  if (options_.mode == Mode::kDiloco) {
    PULSE_RETURN_IF_ERROR(work_.Did(kernels_.pseudo_gradient({theta_.data, w_.data, scratch_.data},
                                                             theta_.size, work_.stream()),
                                    "the pseudo-gradient"));
  }
  // Dense contributions go on the wire as they lie.
  host_scratch_.resize(scratch_.size);
  PULSE_RETURN_IF_ERROR(work_.Down<float>(scratch_, std::span(host_scratch_), NextDeadline()));
  return Contributed{.entries = scratch_.size,
                     .payload_bytes = exchange_.ExpectedBytes(scratch_.size)};
}

// Range by range, as positions and values need room for all elements of one.
Status DeviceArrays::Gate() {
  update_ = {};
  update_.elements = theta_.size;
  const uint64_t range = device_options_.gate_blocks * kScatterBlockElements;
  for (uint64_t begin = 0; begin < theta_.size; begin += range) {
    PULSE_RETURN_IF_ERROR(GateBlocks(begin, std::min(range, theta_.size - begin)));
  }
  PULSE_ASSIGN_OR_RETURN(const auto starts,
                         update_starts_.Get<uint64_t>(work_.driver(), update_.starts.size()));
  PULSE_RETURN_IF_ERROR(
      work_.Up(std::span<const uint64_t>(update_.starts), starts, NextDeadline()));
  update_.device_starts = starts;
  update_.positions = entry_positions_.first(update_.entries());
  update_.values = entry_values_.first(update_.entries());
  return OkStatus();
}

Status DeviceArrays::GateBlocks(uint64_t begin, uint64_t length) {
  const DeviceDriver& driver = work_.driver();
  const uint64_t blocks = SparseBlocksFor(length);
  PULSE_ASSIGN_OR_RETURN(const auto starts, gate_starts_.Get<uint64_t>(driver, blocks + 1));
  PULSE_ASSIGN_OR_RETURN(const auto positions, gate_positions_.Get<uint32_t>(driver, length));
  PULSE_ASSIGN_OR_RETURN(const auto values, gate_values_.Get<float>(driver, length));
  PULSE_ASSIGN_OR_RETURN(const auto scratch,
                         gate_scratch_.Get<uint8_t>(driver, kernels::CompactScratchBytes(length)));
  kernels::GateRunsOp op{};
  op.runs = runs_;
  op.first = begin;
  op.open = options_.gate_open;
  op.rounded = options_.rounded_values.value_or(kernels::GateRunsOp::kExact);
  op.theta = theta_.data + begin;
  op.w = w_.data + begin;
  op.residual = residual_.data + begin;
  op.positions = positions.data;
  op.values = values.data;
  PULSE_RETURN_IF_ERROR(work_.Did(
      kernels_.gate(op, length, {starts, positions, scratch}, work_.stream()), "the gate"));
  std::vector<uint64_t> found(blocks + 1);
  PULSE_RETURN_IF_ERROR(work_.Down<uint64_t>(starts, std::span(found), NextDeadline()));
  const uint64_t before = update_.entries(), count = found.back();
  PULSE_RETURN_IF_ERROR(MakeRoomForEntries(before + count));
  PULSE_RETURN_IF_ERROR(
      work_.Copy<uint32_t>(positions.first(count), entry_positions_.subspan(before, count)));
  PULSE_RETURN_IF_ERROR(
      work_.Copy<float>(values.first(count), entry_values_.subspan(before, count)));
  for (uint64_t b = 1; b <= blocks; ++b) update_.starts.push_back(before + found[b]);
  return OkStatus();
}

// Keeps the entries that are there.
Status DeviceArrays::MakeRoomForEntries(uint64_t entries) {
  if (entries <= entry_positions_.size) return OkStatus();
  const uint64_t room = std::max(entries, entry_positions_.size * 3 / 2);
  const uint64_t kept = update_.entries();
  DeviceRoom positions, values;
  PULSE_ASSIGN_OR_RETURN(const auto p, positions.Get<uint32_t>(work_.driver(), room));
  PULSE_ASSIGN_OR_RETURN(const auto v, values.Get<float>(work_.driver(), room));
  PULSE_RETURN_IF_ERROR(work_.Copy<uint32_t>(entry_positions_.first(kept), p.first(kept)));
  PULSE_RETURN_IF_ERROR(work_.Copy<float>(entry_values_.first(kept), v.first(kept)));
  PULSE_RETURN_IF_ERROR(work_.Wait(NextDeadline()));  // before the old ones go
  update_positions_ = std::move(positions);
  update_values_ = std::move(values);
  entry_positions_ = p;
  entry_values_ = v;
  return OkStatus();
}

Status DeviceArrays::Sum(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
                         Deadline deadline) {
  const bool sparse = options_.mode == Mode::kPulseLoco;
  const ExchangeKind kind = exchange_.Choose(scratch_.size, round, payload_bytes);
  if (!sparse || kind != ExchangeKind::kSparseAllGather) {
    return SumOnHost(round, payload_bytes, nullptr, deadline);
  }
  std::vector<uint64_t> borders;
  PULSE_ASSIGN_OR_RETURN(const bool summed, sum_.Sum(contributes_ ? &update_ : nullptr, round,
                                                     theta_, scratch_, &borders, deadline));
  if (!summed) return SumOnHost(round, payload_bytes, &borders, deadline);
  uint64_t nonzero = 0;
  if (exchange_.CountsNonZero(round)) {
    PULSE_ASSIGN_OR_RETURN(nonzero, CountNonZeroOfSum());
  }
  exchange_.Note(sum_.traffic(), contributes_ ? update_.entries() : 0, round.total_entries(),
                 nonzero);
  return OkStatus();
}

StatusOr<uint64_t> DeviceArrays::CountNonZeroOfSum() {
  PULSE_RETURN_IF_ERROR(ClearCount());
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.count_nonzero({scratch_.data, count_.data}, scratch_.size, work_.stream()),
                "counting the sum's entries"));
  return ReadCount();
}

StatusOr<SparseUpdate> DeviceArrays::UpdateOnHost(Deadline deadline) {
  SparseUpdate update;
  update.elements = update_.elements;
  update.starts = update_.starts;
  update.positions.resize(update_.entries());
  update.values.resize(update_.entries());
  PULSE_RETURN_IF_ERROR(
      work_.Down<uint32_t>(update_.positions, std::span(update.positions), deadline));
  PULSE_RETURN_IF_ERROR(work_.Down<float>(update_.values, std::span(update.values), deadline));
  return update;
}

// borders: of segments that the ranks have agreed on already, or null.
Status DeviceArrays::SumOnHost(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
                               const std::vector<uint64_t>* borders, Deadline deadline) {
  AgreedRound with_theta = round;
  SparseUpdate update;
  Contribution mine{.sparse = nullptr, .dense = {}};
  host_scratch_.resize(scratch_.size);
  if (options_.mode == Mode::kPulseLoco) {
    PULSE_RETURN_IF_ERROR(Bring(Which::kTheta, deadline));
    with_theta.theta = state_.theta;
    if (contributes_) {
      PULSE_ASSIGN_OR_RETURN(update, UpdateOnHost(deadline));
      mine.sparse = &update;
    }
  } else if (contributes_) {
    mine.dense = host_scratch_;
  }
  if (borders != nullptr) {
    PULSE_RETURN_IF_ERROR(
        sum_.host().SumSegments(mine, with_theta, *borders, host_scratch_, deadline));
    exchange_.Note(sum_.host().traffic(), mine.entries(), round.total_entries(),
                   exchange_.CountsNonZero(round) ? CountNonZero(host_scratch_) : 0);
  } else {
    PULSE_RETURN_IF_ERROR(exchange_.Sum(mine, with_theta, payload_bytes, host_scratch_, deadline));
  }
  return work_.Up(std::span<const float>(host_scratch_), scratch_, deadline);
}

StatusOr<uint64_t> DeviceArrays::TakeOuterStep() {
  kernels::OuterStepViewOp op{};
  op.runs = runs_;
  op.scalars = {.learning_rate = static_cast<float>(options_.outer.learning_rate),
                .momentum = static_cast<float>(options_.outer.momentum),
                .trainers = static_cast<float>(trainers_)};
  op.sum = scratch_.data;
  op.momentum = momentum_.data;
  op.theta = theta_.data;
  op.count = count_.data;
  PULSE_RETURN_IF_ERROR(ClearCount());
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.outer_step(op, theta_.size, work_.stream()), "the outer step"));
  return ReadCount();
}

Status DeviceArrays::TakeDdpStep() {
  PULSE_RETURN_IF_ERROR(work_.Did(
      kernels_.mean(scratch_, static_cast<float>(trainers_), work_.stream()), "the mean"));
  return AdamW(theta_);
}

StatusOr<uint64_t> DeviceArrays::CountChanged() {
  PULSE_RETURN_IF_ERROR(ClearCount());
  PULSE_RETURN_IF_ERROR(
      work_.Did(kernels_.count_view_changes({runs_, w_.data, theta_.data, count_.data}, w_.size,
                                            work_.stream()),
                "counting changes of the view"));
  return ReadCount();
}

// In the order of SharedArraysOf.
StatusOr<ShardDigests> DeviceArrays::Digests(const ModelSchema& masters, Deadline deadline) {
  std::vector<DeviceSpan<const float>> arrays = {theta_};
  if (options_.mode == Mode::kDdp) {
    arrays.push_back(m_);
    arrays.push_back(v_);
  } else {
    arrays.push_back(momentum_);
  }
  ShardDigests all;
  for (const auto& array : arrays) {
    PULSE_ASSIGN_OR_RETURN(ArrayDigests digests,
                           digests_.Of(masters, array, ranks_.range().begin, deadline));
    if (all.tensors.empty()) all.theta_chunks = std::move(digests.chunks);
    all.tensors.insert(all.tensors.end(), digests.tensors.begin(), digests.tensors.end());
  }
  return all;
}

StatusOr<bool> DeviceArrays::ThetaIsUsable() {
  return IsBelow(theta_, kWeightBound);
}

}  // namespace pulse::loco
