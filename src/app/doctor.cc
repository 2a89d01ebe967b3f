#include "app/doctor.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/console.h"
#include "app/cuda_parts.h"
#include "app/loco_options.h"
#include "app/parts.h"
#include "app/run_folder.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

// What a check found: a fact, or what is wrong.
using Found = StatusOr<std::string>;

Check Named(std::string name, const Found& found) {
  return {std::move(name), found.status(), found.ok() ? *found : std::string()};
}

uint64_t RanksOnThisHost(const Communicator& communicator) {
  uint64_t ranks = 0;
  for (int r = 0; r < communicator.size(); ++r) {
    ranks += communicator.HostOf(r) == communicator.HostOf(communicator.rank()) ? 1 : 0;
  }
  return ranks;
}

Found CheckKernels(const std::string& name) {
  PULSE_ASSIGN_OR_RETURN(const auto table, kernels::ChooseKernels(name));
  return fmt::format("{} ({}), arithmetic as the contract says", table.name, kernels::SimdTarget());
}

Found CheckRanks(const RunConfig& config, const Communicator& communicator) {
  PULSE_ASSIGN_OR_RETURN(const loco::Options options, LocoOptions(config));
  const auto ranks = static_cast<uint32_t>(communicator.size());
  if (ranks % options.ranks_per_trainer != 0) {
    return InvalidArgument(
        "{} ranks can't be trainers of {} each; start doctor as the run is started: mpirun -n K "
        "pulseloco doctor CONFIG",
        ranks, options.ranks_per_trainer);
  }
  const uint32_t trainers = ranks / options.ranks_per_trainer;
  PULSE_RETURN_IF_ERROR(loco::Validate(options, trainers));
  return fmt::format("{} trainers of {} ranks, {} of them on this host", trainers,
                     options.ranks_per_trainer, RanksOnThisHost(communicator));
}

// The nearest folder that is there already.
Found CheckWritable(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error).lexically_normal();
  while (!error && !std::filesystem::exists(at, error) && at != at.parent_path()) {
    at = at.parent_path();
  }
  if (error) return InvalidArgument("{}: {}", path, error.message());
  if (!std::filesystem::is_directory(at, error)) {
    return InvalidArgument("{}: {} is no folder", path, at.string());
  }
  if (::access(at.c_str(), W_OK) == 0)
    return fmt::format("{} can be made in {}", path, at.string());
  return PermissionDenied("{}: {} is not writable", path, at.string());
}

Found CheckFolder(const RunConfig& config, Filesystem& fs) {
  const RunFolder folder{config.run.dir};
  if (fs.Stat(folder.Metrics()).ok()) {
    return AlreadyExists(
        "{} holds a run already: continue it with train --resume, or set another "
        "run.dir",
        folder.path);
  }
  return CheckWritable(folder.path);
}

Found CheckBucket(const RunConfig& config, const DoctorDeps& deps) {
  if (!config.publish.enabled) return "nothing is published";
  const std::string uri =
      config.publish.bucket.empty() ? RunFolder{config.run.dir}.Bucket() : config.publish.bucket;
  auto opened = OpenBucket(uri, BucketAccess::kExisting, deps.fs, deps.clock);
  if (absl::IsNotFound(opened.status()) && !uri.starts_with("file://")) return CheckWritable(uri);
  if (absl::IsNotFound(opened.status())) return CheckWritable(uri.substr(7));
  PULSE_RETURN_IF_ERROR(opened.status());
  PULSE_ASSIGN_OR_RETURN(const ListPage page, (*opened)->List("runs/", "", 1, true));
  PULSE_ASSIGN_OR_RETURN(const bool conditional, (*opened)->HonoursConditions());
  if (!conditional && !config.publish.single_writer) {
    return FailedPrecondition(
        "{}: ignores conditional puts, so two publishers could overwrite each other; set "
        "publish.single_writer if you promise that there is one",
        (*opened)->uri());
  }
  return fmt::format("{}: reachable, {}", (*opened)->uri(),
                     conditional ? "honours conditional puts" : "alone by promise");
}

Found CheckDevice(const RunConfig& config, const Communicator& communicator) {
  if (config.device == "cpu") return "cpu";
  PULSE_RETURN_IF_ERROR(OpenCuda(RankOnHost(communicator)).status());
  return CudaPresent();
}

Found CheckMemory(const RunConfig& config, const Trainer& trainer, const DoctorDeps& deps) {
  const RunMemory each = EstimateMemory(config, trainer.schema().elements());
  const uint64_t ranks = RanksOnThisHost(deps.communicator);
  const uint64_t available = deps.available_memory();
  const std::string words =
      fmt::format("{} parameters: {} a rank{}, {} ranks here, {} available",
                  trainer.schema().elements(), FormatBytes(each.host),
                  each.device > 0 ? fmt::format(" and {} on its card", FormatBytes(each.device))
                                  : std::string(),
                  ranks, available > 0 ? FormatBytes(available) : "unknown");
  if (available > 0 && each.host * ranks > available) return ResourceExhausted("{}", words);
  return words;
}

}  // namespace

uint64_t AvailableMemory() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/meminfo", "r"), std::fclose);
  char line[256];
  while (file && std::fgets(line, sizeof(line), file.get())) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) return uint64_t{kib} << 10;
  }
  return 0;
}

RunMemory EstimateMemory(const RunConfig& config, uint64_t elements) {
  const uint64_t shards = config.loco.ranks_per_trainer;
  const uint64_t shard = elements / shards + (elements % shards != 0 ? 1 : 0);
  // FP32 arrays: theta, w, m, v; e (pulseloco), b (not in ddp); a gradient, and m and v of the
  // round's start to take it back.
  uint64_t arrays = 4 + 3;
  if (config.loco.mode == "pulseloco") arrays += 1;
  if (config.loco.mode != "ddp") arrays += 1;
  uint64_t host = 4 * shard * arrays;
  // A trainer that computes at whole weights: those of the step and theta, and a gradient.
  if (shards > 1 && config.trainer.kind != "synthetic") host += 3 * 4 * elements;
  if (config.checkpoint.every > 0) host += 5 * 4 * shard;  // the copy that is being written
  host += config.loco.exchange_memory_mib << 20;
  if (config.device == "cpu") return {.host = host, .device = 0};
  // On the card also the view that was published last, 2 bytes each, unless ranks share it. The
  // host keeps one copy of the arrays, for checkpoints and full weights.
  const uint64_t view = shards == 1 ? 2 * shard : 0;
  return {.host = host, .device = 4 * shard * arrays + view};
}

std::vector<Check> CheckMachine() {
  return {Named("kernels", CheckKernels("auto")), {"device", OkStatus(), CudaPresent()}};
}

std::vector<Check> CheckRun(const StatusOr<RunConfig>& config, const DoctorDeps& deps) {
  std::vector<Check> checks;
  if (!config.ok()) return {{"config", config.status(), ""}};
  checks.push_back({"config", OkStatus(),
                    fmt::format("{}, {} rounds of {} steps", config->loco.mode, config->loco.rounds,
                                config->loco.local_steps)});
  checks.push_back(Named("kernels", CheckKernels(config->kernels)));
  checks.push_back(Named("ranks", CheckRanks(*config, deps.communicator)));
  checks.push_back(Named("device", CheckDevice(*config, deps.communicator)));
  const auto trainer = MakeTrainer(*config, {});
  checks.push_back({"trainer", trainer.status(), config->trainer.kind});
  if (trainer.ok()) checks.push_back(Named("memory", CheckMemory(*config, **trainer, deps)));
  if (deps.communicator.rank() != 0) return checks;
  // Rank 0's alone, as it alone writes them.
  checks.push_back(Named("folder", CheckFolder(*config, deps.fs)));
  checks.push_back(Named("bucket", CheckBucket(*config, deps)));
  return checks;
}

}  // namespace pulse
