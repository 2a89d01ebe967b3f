// A rank's arrays in device memory: theta, w, m, v, e and b stay there, and everything that a round
// does to them is done there. Over the bus go encoded updates (but for those of trainers whose
// communicator takes device memory), counts, digests, and whole arrays only where somebody on the
// host asks for them: a start, a checkpoint, an observer, an exchange other than the sparse
// all-gather.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/held_releases.h"
#include "device/work.h"
#include "kernels/device_kernels.h"
#include "loco/arrays.h"
#include "loco/device/device_digests.h"
#include "loco/device/device_sum.h"
#include "loco/device/device_tree_sum.h"
#include "loco/exchange/adaptive.h"
#include "loco/trainer_ranks.h"
#include "trainer/device_trainer.h"

namespace pulse::loco {

struct DeviceOptions {
  StagingOptions staging;
  // Blocks of 2^20 elements that are gated at a time: 8 bytes an element of scratch, in case all
  // pass. 64 fill a card many times over.
  uint64_t gate_blocks = 64;
};

// All must outlive the arrays.
struct DeviceDeps {
  const DeviceDriver& driver;
  const kernels::DeviceKernels& kernels;
  DeviceTrainer& trainer;
  Clock& clock;
  // What ArraysParts::peers seals messages for, where it takes them in device memory too.
  DeviceCommunicator* peers = nullptr;
};

// Device memory: 36 bytes a parameter of this rank's shard in pulseloco, 4 more for each doubling
// of micro-batches, gate scratch, and what the entries of a round and their coding take.
class DeviceArrays final : public Arrays {
 public:
  // kUnimplemented for several ranks a trainer where its DeviceTrainer computes no ranges;
  // kResourceExhausted.
  static StatusOr<std::unique_ptr<DeviceArrays>> Make(const ArraysParts& parts,
                                                      const DeviceDeps& deps,
                                                      const DeviceOptions& options = {});

  std::string_view place() const override { return kernels_.name; }
  State& state() override { return state_; }
  Status TakeTheta(Deadline deadline) override;
  Status TakeState(Deadline deadline) override;
  Status Bring(Which which, Deadline deadline) override;

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

  // For who publishes from the device. Between rounds; this rank's shard.
  DeviceSpan<const float> theta() const { return theta_; }
  DeviceWork& work() { return work_; }
  // Over the bus so far.
  uint64_t bytes_up() const { return work_.bytes_up() + encoding_.bytes_up(); }
  uint64_t bytes_down() const { return work_.bytes_down() + encoding_.bytes_down(); }
  const kernels::DeviceKernels& kernels() const { return kernels_; }

 private:
  // Opened before the rest, as that can fail.
  struct Streams {
    std::unique_ptr<HeldReleases> releases;
    std::optional<DeviceWork> work = {}, encoding = {};
  };

  DeviceArrays(const ArraysParts& parts, const DeviceDeps& deps, const DeviceOptions& options,
               Streams streams);

  Status Allocate();
  // Calls visit(host array, device array) for theta, w, m, v, e, b, as far as the mode has them.
  template <typename Visit>
  Status ForEachArray(Visit visit);
  Status BeginLocalSteps();
  // local: this rank's so far, which it tells the trainer's other ranks.
  Status ComputeGradient(const Status& local, uint64_t step_in_round,
                         DeviceSpan<const float> weights, InnerResult& result);
  // Whether the trainer could.
  StatusOr<bool> SumMicroBatches(uint64_t step_in_round, DeviceSpan<const float> weights,
                                 InnerResult& result);
  StatusOr<bool> WeightsAreUsable();
  // Collective: whether it is so on all the trainer's ranks. An error comes back after the others
  // have learned that it isn't.
  StatusOr<bool> All(const StatusOr<bool>& mine);
  Status CallTrainer(const LocalStep& at, DeviceSpan<const float> weights, InnerResult& result);
  Status AdamW(DeviceSpan<float> w);
  StatusOr<bool> IsBelow(DeviceSpan<const float> x, float bound);
  Status ClearCount();
  StatusOr<uint64_t> ReadCount();

  Status Gate();
  Status GateBlocks(uint64_t begin, uint64_t length);
  Status MakeRoomForEntries(uint64_t entries);
  Status SumOnHost(const AgreedRound& round, std::span<const uint64_t> payload_bytes,
                   const std::vector<uint64_t>* borders, Deadline deadline);
  StatusOr<SparseUpdate> UpdateOnHost(Deadline deadline);
  StatusOr<uint64_t> CountNonZeroOfSum();
  Deadline NextDeadline() const { return Deadline::After(clock_, options_.deadline_ms); }

  const Options& options_;
  const DeviceOptions device_options_;
  const kernels::DeviceKernels& kernels_;
  DeviceTrainer& trainer_;
  Clock& clock_;
  TrainerRanks ranks_;
  const std::vector<ViewRun> view_runs_;  // of this shard
  uint32_t trainer_index_, trainers_;
  std::unique_ptr<HeldReleases> releases_;
  DeviceWork work_;
  DeviceWork encoding_;  // of this round's entries, beside work_
  DeviceDigests digests_;
  DeviceTreeSum tree_sum_;  // of micro-batches
  DeviceSum sum_;
  AdaptiveExchange exchange_;
  State state_;

  DeviceRoom rooms_[9];
  DeviceSpan<float> theta_, w_, m_, v_, residual_, momentum_, m_before_, v_before_;
  DeviceSpan<float> scratch_;  // the gradient, later in the round the sum
  uint64_t step_before_ = 0;
  DeviceRoom count_room_, run_ends_room_, run_views_room_;
  DeviceSpan<uint64_t> count_;
  kernels::DeviceViewRuns runs_{};

  // This round's entries.
  DeviceRoom update_starts_, update_positions_, update_values_;
  DeviceSpan<uint32_t> entry_positions_;
  DeviceSpan<float> entry_values_;
  DeviceUpdate update_;
  DeviceRoom gate_starts_, gate_positions_, gate_values_, gate_scratch_;
  bool contributes_ = false;
  std::vector<float> host_scratch_;  // a dense contribution, and the sum where the host adds up
};

}  // namespace pulse::loco
