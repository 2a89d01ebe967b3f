// The YAML configuration of a training run: a schema of known keys with types, ranges and units,
// and errors that name file, line and key.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

// Defaults are those of configs/wordle.yaml's scale where they depend on the task. Every member has
// a row in the table in config.cc, which is also what `pulseloco train --help-config` prints.
struct RunConfig {
  struct {
    std::string dir = "runs/wordle";  // everything of the run lies here
    std::string name = "main";        // the run's name in the bucket
    uint64_t seed = 1;
  } run;

  struct {
    std::string mode = "pulseloco";
    uint64_t rounds = 100;
    uint64_t local_steps = 8;  // H
    double outer_learning_rate = 0.7;
    double outer_momentum = 0.9;
    bool open_gate = false;
    std::string rollout_weights = "global";
    std::string on_non_finite = "stop";
    std::string on_trainer_error = "stop";
    std::vector<uint64_t> sites;  // site of trainer k; empty: one site
    std::string sites_by = "list";
    std::string inside_sites = "mpi";
    std::string exchange = "auto";
    std::string codec = "small";
    std::string values = "exact";
    uint64_t exchange_memory_mib = 512;
    uint64_t ranks_per_trainer = 1;  // R
    uint64_t threads = 1;
    uint64_t deadline_ms = 300'000;
    uint64_t long_deadline_ms = 3'600'000;
  } loco;

  struct {
    double learning_rate = 3e-6;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0;
  } adam;

  struct {
    std::string kind = "wordle";
    uint64_t threads = 1;
    uint64_t micro_batches = 1;
    // wordle
    std::string dictionary = "/usr/share/dict/american-english";
    uint64_t words = 128;
    uint64_t groups = 4;
    uint64_t games_per_group = 8;
    double clip_ratio = 0.2;
    double clip_gradient = 1.0;
    uint64_t warm_start_steps = 500;
    uint64_t warm_start_games = 64;
    double warm_start_learning_rate = 2.5e-3;
    uint64_t warm_start_threads = 1;
    // synthetic
    uint64_t elements = 1'000'000;
    double gradient_scale = 1.0;
  } trainer;

  struct {
    uint64_t every = 10;  // rounds; 0: none
    uint64_t keep = 2;
    std::string folder;  // empty: <run.dir>/checkpoints
  } checkpoint;

  struct {
    std::string bucket;  // empty: <run.dir>/bucket
    uint64_t every = 1;  // rounds
    std::string codec = "auto";
    bool enabled = true;
    bool single_writer = false;
    double anchor_share = 1.0;
    uint64_t anchor_every = 64;
    uint64_t keep = 0;  // versions; 0: all
  } publish;

  struct {
    uint64_t samples = 2000;  // games played at the start and at the end; 0: none
  } evaluate;

  std::string device = "cpu";
  std::string kernels = "auto";
  std::string log_level = "info";
};

// text: the file's contents; source: its name for messages. overrides: "loco.local_steps=4",
// applied after the file, each checked like a line of it. All errors are kInvalidArgument, one
// line.
StatusOr<RunConfig> ParseConfig(std::string_view text, std::string_view source,
                                const std::vector<std::string>& overrides);

// ParseConfig of a file; kNotFound.
StatusOr<RunConfig> LoadConfig(Filesystem& fs, const std::string& path,
                               const std::vector<std::string>& overrides);

// The whole configuration as YAML that ParseConfig reads back to the same values.
std::string ConfigToYaml(const RunConfig& config);

// The settings of the trainer that decide its gradients, so that all ranks must agree on them.
std::map<std::string, std::string> AgreedTrainerSettings(const RunConfig& config);

// Every key with type, default and meaning, as a table for the terminal.
std::string ConfigHelp();

}  // namespace pulse
