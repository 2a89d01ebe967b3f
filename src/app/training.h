// One rank of `pulseloco train`: from the configuration to the end of the run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "app/config.h"
#include "app/console.h"
#include "app/cuda_parts.h"
#include "app/nccl_plugin.h"
#include "collective/communicator.h"
#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

struct TrainingDeps {
  // Of all ranks, and opens that of some of them: all ranks call at the same time, each with the
  // members of its own group.
  Communicator& communicator;
  std::function<StatusOr<std::unique_ptr<Communicator>>(const std::vector<int>& members)>
      open_group;
  Filesystem& fs;
  Clock& clock;
  const Console& console;
  const std::atomic<bool>& stop_requested;
  bool resume = false;  // continue the run of the folder, if there is one
  // For device cuda: of a rank's number on its host; called by its thread.
  std::function<StatusOr<Cuda>(uint64_t rank_on_host)> open_cuda = OpenCuda;
  // For loco.inside_sites nccl; called by the rank's thread.
  std::function<StatusOr<NcclTable>()> load_nccl = LoadNccl;
};

// Collective. What can go wrong before the first round (a bad option, no dictionary, an unwritable
// folder) is agreed on before anyone waits, and every rank returns the failing rank's error.
// kCancelled after a clean stop on request.
Status RunTraining(const StatusOr<RunConfig>& config, const TrainingDeps& deps);

}  // namespace pulse
