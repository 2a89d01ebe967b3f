// What rank 0 keeps of a training run: metrics.jsonl, weights at both ends, versions in the bucket,
// and the live line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/config.h"
#include "app/console.h"
#include "app/device_view.h"
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
  uint32_t trainers;           // K
  bool resume;                 // the folder may hold a run, which is continued
  loco::DeviceArrays* device;  // where theta lives; null: in host memory
};

// kAlreadyExists if the folder holds a run.
Status RequireNoRun(Filesystem& fs, const RunFolder& folder);

// Whether a version is published after this round.
bool IsPublished(const RunConfig& config, const loco::RoundReport& report);

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
  explicit TrainingRecord(TrainingRecordDeps deps)
      : deps_(deps), folder_{deps.config.run.dir}, live_(deps.console) {}

  Status Begin(const loco::State& state);
  Status Append(const std::string& line) { return metrics_->Append(line); }
  Status WriteMasters(const std::string& path, std::span<const float> weights);
  Status Evaluate(const char* when, std::span<const float> weights);
  Status Publish(std::span<const float> theta, uint64_t round, bool final);
  StatusOr<std::optional<Published>> PublishFromDevice(uint64_t round, bool final);
  void Show(const loco::RoundReport& report);

  TrainingRecordDeps deps_;
  RunFolder folder_;
  LiveLine live_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<DeviceView> device_view_;  // made with the first version of this process
  uint64_t last_patch_bytes_ = 0;
  uint64_t first_round_ = 0;  // completed when this process started
  int64_t started_ns_ = 0;
};

}  // namespace pulse
