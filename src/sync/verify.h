// Is every byte of a run what it claims? Reads everything, changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/store.h"
#include "sync/chain.h"

namespace pulse {

struct VerifyReport {
  std::vector<std::string> problems;  // one line each; empty: everything holds
  std::vector<std::string> orphans;   // keys that no kept version names; not a problem
  uint64_t versions = 0;  // rebuilt, each bit-identical to its digest unless a problem says so
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

struct VerifyOptions {
  ChainOptions chain;
  int threads = 1;                              // of the rebuilding; each holds about three cells
  std::function<void(uint64_t)> progress = {};  // bytes read so far
};

// Checks the head, every manifest back to the oldest kept, every object's SHA-256, and every
// version's digest by rebuilding it (a few cells for each thread and one header per version in
// memory). A status only when the store can't be read at all; damage is in the report. A bucket
// that was rolled back as a whole looks sound.
StatusOr<VerifyReport> VerifyRun(Store& store, const kernels::KernelTable& kernels,
                                 const VerifyOptions& options);

// The runs of a bucket, by name.
StatusOr<std::vector<std::string>> ListRuns(Store& store);

// What lies beside the runs, rolled up to folders: copies in the formats of other systems, say,
// which neither VerifyRun nor retention looks at.
StatusOr<std::vector<std::string>> ListBesideRuns(Store& store);

}  // namespace pulse
