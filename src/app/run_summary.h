// What a run's files say about it: metrics.jsonl of the trainers and versions.jsonl of the
// followers, added up.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

// wins of games, and the standard error of that share.
struct WinRate {
  uint64_t games = 0;
  uint64_t wins = 0;
  double reward_sum = 0;

  double rate() const { return games ? static_cast<double>(wins) / static_cast<double>(games) : 0; }
  double standard_error() const;
  double mean_reward() const { return games ? reward_sum / static_cast<double>(games) : 0; }
};

// Of a trainer's metrics, as an object; no games where it has none. Throws nlohmann's exceptions.
WinRate WinRateOf(const nlohmann::json& metrics);
std::string WinRateText(const WinRate& rate);  // "13.9 % +- 0.5"

// (after - before) in units of its standard error: above 5 is no noise.
double Significance(const WinRate& before, const WinRate& after);

struct FollowerSummary {
  std::string name;         // folder name: "follower-0"
  uint64_t versions = 0;    // rebuilt, each with the digest that the publisher announced
  uint64_t mismatches = 0;  // digests that differ from the trainers' own record
  std::string last_version;
  std::string last_digest;
  uint64_t bytes_fetched = 0;
  bool has_evaluation = false;
  WinRate evaluation;  // of the rebuilt file, by the follower itself
};

struct RunSummary {
  std::string path, mode;
  bool finished = false;
  uint64_t trainers = 0, local_steps = 0, parameters = 0, rounds = 0;
  double seconds = 0;  // of all rounds
  // Means per round. Bytes are what one rank receives from the others.
  double gate_density = 0, view_density = 0;
  double exchange_bytes = 0, dense_diloco_bytes = 0, ddp_bytes = 0, bytes_per_entry = 0;
  uint64_t versions = 0, checkpoint_bytes = 0;
  double patch_bytes = 0;  // mean over deltas
  std::string last_version, last_digest;
  bool has_initial = false, has_final = false;
  WinRate initial, final;
  std::vector<FollowerSummary> followers;
};

// kNotFound if the folder has no metrics; kDataLoss naming file and line if one does not parse.
StatusOr<RunSummary> SummarizeRun(Filesystem& fs, const std::string& run_path);

}  // namespace pulse
