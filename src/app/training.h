// One rank of `pulseloco train`: from the configuration to the end of the run.
#pragma once

#include <atomic>

#include "app/config.h"
#include "app/console.h"
#include "collective/communicator.h"
#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

struct TrainingDeps {
  Communicator& communicator;
  Filesystem& fs;
  Clock& clock;
  const Console& console;
  const std::atomic<bool>& stop_requested;
  bool resume = false;  // continue the run of the folder, if there is one
};

// Collective. What can go wrong before the first round (a bad option, no dictionary, an unwritable
// folder) is agreed on before anyone waits, and every rank returns the failing rank's error.
// kCancelled after a clean stop on request.
Status RunTraining(const StatusOr<RunConfig>& config, const TrainingDeps& deps);

}  // namespace pulse
