// A rank's arrays in host memory.
#pragma once

#include <memory>
#include <vector>

#include "core/sparse_update.h"
#include "core/workers.h"
#include "loco/arrays.h"
#include "loco/exchange/adaptive.h"
#include "loco/inner_phase.h"
#include "loco/outer_phase.h"
#include "loco/pseudo_gradient.h"
#include "loco/trainer_ranks.h"

namespace pulse::loco {

class HostArrays final : public Arrays {
 public:
  static StatusOr<std::unique_ptr<Arrays>> Make(const ArraysParts& parts);

  std::string_view place() const override { return "host"; }
  State& state() override { return state_; }
  Status TakeTheta(Deadline /*deadline*/) override { return OkStatus(); }
  Status TakeState(Deadline /*deadline*/) override { return OkStatus(); }
  Status Bring(Which /*which*/, Deadline /*deadline*/) override { return OkStatus(); }

  StatusOr<InnerResult> TakeLocalSteps() override;
  Status TakeBack() override;
  Status BeginDdpRound() override;
  StatusOr<InnerResult> TakeGradient(uint64_t step_in_round) override;

  StatusOr<Contributed> Contribute(bool usable) override;
  Status Sum(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
             Deadline deadline) override;
  const Estimate& estimate() const override { return exchange_.estimate(); }
  Traffic traffic() const override { return exchange_.traffic(); }
  void Learn(double seconds) override { exchange_.Learn(seconds); }

  StatusOr<uint64_t> TakeOuterStep() override;
  Status TakeDdpStep() override;
  StatusOr<uint64_t> CountChanged() override;
  StatusOr<ShardDigests> Digests(const ModelSchema& masters, Deadline deadline) override;
  StatusOr<bool> ThetaIsUsable() override;

 private:
  explicit HostArrays(const ArraysParts& parts);

  const Options& options_;
  kernels::KernelTable kernels_;
  uint32_t trainers_;
  Workers workers_;
  TrainerRanks ranks_;
  State state_;
  InnerPhase inner_;
  PseudoGradient pseudo_gradient_;
  OuterPhase outer_;
  AdaptiveExchange exchange_;
  // Of this shard: the gradient, later in the round a dense contribution and the sum.
  std::vector<float> scratch_;
  SparseUpdate update_;
  Contribution contribution_;
};

}  // namespace pulse::loco
