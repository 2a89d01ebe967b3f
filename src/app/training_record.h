// What rank 0 keeps of a training run: metrics.jsonl, weights at both ends, versions in the bucket,
// and the live line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/config.h"
#include "app/console.h"
#include "app/device_view.h"
#include "app/masters.h"
#include "app/metrics_file.h"
#include "app/run_folder.h"
#include "app/run_publisher.h"
#include "kernels/kernels.h"
#include "loco/round_observer.h"
#include "trainer/trainer.h"

namespace pulse {

// Everything must outlive the record. publisher: null when nothing is published.
struct TrainingRecordDeps {
  const RunConfig& config;
  const Console& console;
  Filesystem& fs;
  const kernels::KernelTable& kernels;
  Trainer& trainer;
  RunPublisher* publisher;
  Logger& log;
  uint32_t trainers;            // K
  bool resume;                  // the folder may hold a run, which is continued
  loco::DeviceArrays* device;   // where all of theta lives; null: it is read in host memory
  Communicator* trainer_group;  // the ranks that share the trainer; null for one
};

// kAlreadyExists if the folder holds a run.
Status RequireNoRun(Filesystem& fs, const RunFolder& folder);

// Whether a version is published after this round. last: no round follows.
bool IsPublished(const RunConfig& config, uint64_t round, bool last);

// Whether this is the run's last round. The ranks that share rank 0's trainer are in ServeMasters
// then, whatever happened before, and at the start.
bool IsLast(const RunConfig& config, const loco::RoundReport& report);

// Of rank 0's trainer, on a rank whose shard of theta begins at element `begin`.
MastersParts MastersOf(const RunConfig& config, Communicator* trainer, const ModelSchema& masters,
                       const loco::State& state, uint64_t begin, const Clock& clock);

// An observer for rank 0. Each line of metrics.jsonl is one record with a "type": start, resume,
// evaluation, round, version, end (docs/operations.md lists their fields).
class TrainingRecord final : public loco::RoundObserver {
 public:
  // Writes the configuration; without deps.resume, kAlreadyExists if the folder holds a run.
  static StatusOr<std::unique_ptr<TrainingRecord>> Create(TrainingRecordDeps deps);

  // kFailedPrecondition where a run is to be resumed that has rounds and no checkpoint.
  Status OnStart(const loco::State& state) override;
  Status OnResume(const loco::State& state, const loco::Notes& notes) override;
  loco::Notes CheckpointNotes() override;
  bool ReadsTheta(uint64_t round, bool last) const override;
  Status OnRound(const loco::State& state, const loco::RoundReport& report) override;

 private:
  TrainingRecord(TrainingRecordDeps deps, ModelSchema masters)
      : deps_(deps),
        masters_(std::move(masters)),
        folder_{deps.config.run.dir},
        live_(deps.console) {}

  Status Begin(const Masters& masters);
  Status End(const loco::RoundReport& report, const Masters& masters);
  MastersParts Parts(const loco::State& state) const {
    return MastersOf(deps_.config, deps_.trainer_group, masters_, state, 0, *deps_.console.clock);
  }
  Status Append(const std::string& line) { return metrics_->Append(line); }
  Status Evaluate(const char* when, const Masters& masters);
  Status Publish(const loco::State& state, uint64_t round, bool final);
  StatusOr<std::optional<Published>> PublishFromDevice(uint64_t round, bool final);
  void Show(const loco::RoundReport& report);

  TrainingRecordDeps deps_;
  ModelSchema masters_;
  RunFolder folder_;
  LiveLine live_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<DeviceView> device_view_;  // made with the first version of this process
  uint64_t last_patch_bytes_ = 0;
  uint64_t first_round_ = 0;  // completed when this process started
  int64_t started_ns_ = 0;
};

}  // namespace pulse
