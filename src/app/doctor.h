// Whether a training run would start here: one check after the other, none of which changes
// anything that a run would leave behind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/config.h"
#include "collective/communicator.h"
#include "core/clock.h"
#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

struct Check {
  std::string name;  // "bucket"
  Status status;     // why it fails, and what to do
  std::string fact;  // where it does not
};

struct DoctorDeps {
  Communicator& communicator;  // of all ranks, started as a run would be
  Filesystem& fs;
  Clock& clock;
  // What the machine could still give to programs, bytes; 0: unknown.
  std::function<uint64_t()> available_memory;
};

// Those of the machine alone: arithmetic, device facts.
std::vector<Check> CheckMachine();

// Those of a configuration, on this rank. A store that is asked whether it honours conditional puts
// may see probe objects come and go.
std::vector<Check> CheckRun(const StatusOr<RunConfig>& config, const DoctorDeps& deps);

// MemAvailable of /proc/meminfo, bytes; 0 where there is no such file.
uint64_t AvailableMemory();

// Bytes that a rank of such a run holds for as long as it runs, in host memory or (device cuda) on
// its card. elements: N of the whole model.
struct RunMemory {
  uint64_t host = 0;
  uint64_t device = 0;
};
RunMemory EstimateMemory(const RunConfig& config, uint64_t elements);

}  // namespace pulse
