// A job of the outer loop on threads: one loop, trainer and communicator per rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"
#include "core/status.h"
#include "loco/loop.h"
#include "store/filesystem.h"
#include "trainer/synthetic.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// What one rank ended with.
struct RankResult {
  Status status;
  RunEnd end = RunEnd::kAllRounds;
  State state;
  std::vector<RoundReport> reports;
};

// Each function is called once per rank, in rank order, before the threads start; the defaults
// stand for "the same everywhere".
struct Job {
  int ranks = 1;  // trainers x options.ranks_per_trainer
  Options options = {};
  SyntheticOptions synthetic = {};
  std::string kernels = "auto";
  // Called by each rank's thread, after start (report == nullptr) and after each round.
  std::function<Status(int rank, const State& state, const RoundReport* report)> observe = {};
  std::function<void(int rank, Options& options)> change_options = {};
  std::function<std::unique_ptr<Trainer>(int rank)> make_trainer = {};
  std::function<std::unique_ptr<Communicator>(int rank, std::unique_ptr<Communicator>)> wrap = {};
  // Where a rank's arrays live; called by its thread. Default: in host memory.
  std::function<MakeArrays(int rank, Trainer& trainer)> arrays = {};
  // Another way between all ranks, for the exchanges; called by each rank's thread after `arrays`.
  std::function<Communicator*(int rank, Communicator& all)> peers = {};
  // Where each rank keeps checkpoints; no folder: none are taken.
  CheckpointOptions checkpoints = {};
  std::function<void(int rank, CheckpointOptions& options)> change_checkpoints = {};
  std::function<Filesystem&(int rank)> filesystem = {};  // default: the machine's own
  std::function<void(int rank, const State& state, const std::map<std::string, std::string>& notes)>
      resumed = {};
  // Called by each rank's thread as it ends, its communicator gone.
  std::function<void(int rank, const Status& status)> finished = {};
  // Set by the test, seen by rank `stop_rank` alone.
  std::atomic<bool>* stop = nullptr;
  int stop_rank = 0;
};

// Runs the job to its end and returns what each rank ended with.
std::vector<RankResult> RunJob(const Job& job);

// The communicators of a rank; those of its trainer and its peers only where R > 1.
struct RankCommunicators {
  std::unique_ptr<Communicator> all, trainer, peers;
};

// One rank of the job over any communicators, which go when the rank ends.
RankResult RunOneRank(const Job& job, int rank, RankCommunicators communicators, Trainer& trainer);

// The trainer of one rank.
std::unique_ptr<Trainer> MakeTrainerFor(const Job& job, int rank);

// Fails the running test unless every rank ended well with one theta; returns rank 0's result.
RankResult RunJobOrFail(const Job& job);

// The same end, state and reports of a rank, but for its times.
void ExpectSame(const RankResult& here, const RankResult& there);

// A few thousand BF16 and F32 elements in several tensors, some of odd sizes.
std::vector<TensorSpec> SmallTensors();

// AdamW options under which a step is exactly -+learning_rate by the gradient's sign, or 0: for
// data that must stay exact. learning_rate: a power of two.
kernels::AdamWOptions SignSteps(double learning_rate);

// AdamW options under which a step is the gradient itself, to rounding: lets a test choose what is
// exchanged.
kernels::AdamWOptions GradientSteps();

// As bits: the signs of zero count.
std::vector<uint32_t> BitsOf(const std::vector<float>& values);

}  // namespace pulse::loco
