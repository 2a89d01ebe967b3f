#include "loco/host_arrays.h"

#include <algorithm>

#include "loco/round_closing.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kRangeElements = uint64_t{1} << 15;  // that a thread takes at least

}  // namespace

AdaptiveOptions ExchangeOptionsFor(const Options& options, uint32_t trainers) {
  const bool sends_everything = options.mode != Mode::kPulseLoco;
  return {.kind = options.exchange == ExchangeKind::kAuto && sends_everything ? ExchangeKind::kDense
                                                                              : options.exchange,
          .sites = GroupBySite(options.sites, trainers),
          .memory_bytes = options.exchange_memory_bytes};
}

StatusOr<std::unique_ptr<Arrays>> HostArrays::Make(const ArraysParts& parts) {
  return std::unique_ptr<Arrays>(new HostArrays(parts));
}

HostArrays::HostArrays(const ArraysParts& parts)
    : options_(parts.options),
      kernels_(parts.kernels),
      trainers_(parts.trainers),
      workers_(options_.threads),
      ranks_(parts.trainer_group, parts.shards, kernels_.reduce.add_dense,
             options_.exchange_memory_bytes),
      state_(State::Zero(options_.mode, ranks_.range().length())),
      inner_(options_, kernels_, parts.clock, parts.trainer, ranks_, workers_, parts.trainer_index,
             parts.trainers),
      pseudo_gradient_(kernels_, workers_,
                       CutRuns(parts.runs, ranks_.range().begin, ranks_.range().end),
                       options_.gate_open, options_.rounded_values),
      outer_(options_.outer, parts.trainers, kernels_, workers_,
             CutRuns(parts.runs, ranks_.range().begin, ranks_.range().end)),
      exchange_(parts.peers, kernels_, ExchangeOptionsFor(options_, parts.trainers)),
      scratch_(ranks_.range().length()) {}

StatusOr<InnerResult> HostArrays::TakeLocalSteps() {
  return inner_.Run(state_, scratch_);
}

Status HostArrays::TakeBack() {
  inner_.TakeBack(state_);
  return OkStatus();
}

Status HostArrays::BeginDdpRound() {
  state_.w = state_.theta;
  return OkStatus();
}

StatusOr<InnerResult> HostArrays::TakeGradient(uint64_t step_in_round) {
  return inner_.GradientAtTheta(state_, step_in_round, scratch_);
}

StatusOr<Contributed> HostArrays::Contribute(bool usable) {
  contribution_ = {};
  if (usable) {
    switch (options_.mode) {
      case Mode::kPulseLoco:
        update_ = pseudo_gradient_.Gate(state_.theta, state_.w, state_.residual);
        contribution_.sparse = &update_;
        break;
      case Mode::kDiloco:
        pseudo_gradient_.Dense(state_.theta, state_.w, scratch_);
        contribution_.dense = scratch_;
        break;
      case Mode::kDdp:
        contribution_.dense = scratch_;
        break;
    }
  }
  return Contributed{.entries = contribution_.entries(),
                     .payload_bytes = exchange_.ExpectedBytes(contribution_)};
}

Status HostArrays::Sum(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
                       Deadline deadline) {
  AgreedRound with_theta = round;
  with_theta.theta = state_.theta;
  return exchange_.Sum(contribution_, with_theta, payload_bytes, scratch_, deadline);
}

StatusOr<uint64_t> HostArrays::TakeOuterStep() {
  return outer_.Step(scratch_, state_.outer_momentum, state_.theta);
}

Status HostArrays::TakeDdpStep() {
  RunRanges(workers_, scratch_.size(), kRangeElements, [&](uint64_t begin, uint64_t end) {
    kernels_.reduce.mean(std::span(scratch_).subspan(begin, end - begin),
                         static_cast<float>(trainers_));
  });
  inner_.Step(state_, state_.theta, scratch_);
  return OkStatus();
}

StatusOr<uint64_t> HostArrays::CountChanged() {
  return outer_.CountChanged(state_.w, state_.theta);
}

StatusOr<ShardDigests> HostArrays::Digests(const ModelSchema& masters, Deadline /*deadline*/) {
  ShardDigests digests;
  for (const SharedArray& array : SharedArraysOf(options_.mode, state_, ranks_.range().begin)) {
    ArrayDigests of_array = DigestsOf(masters, array, workers_);
    if (digests.tensors.empty()) digests.theta_chunks = std::move(of_array.chunks);
    digests.tensors.insert(digests.tensors.end(), of_array.tensors.begin(), of_array.tensors.end());
  }
  return digests;
}

StatusOr<bool> HostArrays::ThetaIsUsable() {
  return AllBelow(workers_, state_.theta, kWeightBound);
}

}  // namespace pulse::loco
