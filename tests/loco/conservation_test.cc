// Nothing a trainer produces is lost: it was sent, or it is held.
#include <gtest/gtest.h>

#include <optional>

#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

// With outer lr 1 and no momentum theta moves by the mean of what was sent, so over a whole run
//   sum over trainers of produced = K * (theta at the start - theta at the end) + what they hold.
// All steps are +-2^-14 on weights that are multiples of 2^-6 and K is a power of two, so both
// sides are exact, whatever their order; the loop's only rounding is the views'.
void ExpectConserved(int trainers, uint64_t rounds, std::optional<unsigned> rounded = {}) {
  Job job{.ranks = trainers};
  job.options.rounds = rounds;
  job.options.local_steps = 4;
  job.options.rounded_values = rounded;
  job.options.inner = SignSteps(0x1p-14);
  job.options.outer = {.learning_rate = 1, .momentum = 0};
  job.synthetic = {.tensors = SmallTensors(), .data = SyntheticData::kExact};

  const size_t k = static_cast<size_t>(trainers);
  std::vector<std::vector<float>> theta_before(k), first(k);
  std::vector<std::vector<double>> produced(k);
  job.observe = [&](int rank, const State& state, const RoundReport* report) {
    const size_t r = static_cast<size_t>(rank);
    if (report == nullptr) {
      first[r] = state.theta;
      produced[r].resize(state.theta.size());
    } else {
      for (size_t i = 0; i < state.theta.size(); ++i) {
        produced[r][i] += double{theta_before[r][i]} - double{state.w[i]};
      }
    }
    theta_before[r] = state.theta;
    return OkStatus();
  };
  const std::vector<RankResult> results = RunJob(job);
  size_t held = 0, moved = 0;
  for (size_t i = 0; i < first[0].size(); ++i) {
    double total_produced = 0, total_held = 0;
    for (size_t r = 0; r < k; ++r) {
      ASSERT_TRUE(results[r].status.ok()) << results[r].status;
      total_produced += produced[r][i];
      total_held += double{results[r].state.residual[i]};
      held += results[r].state.residual[i] != 0;
    }
    const double sent =
        static_cast<double>(trainers) * (double{first[0][i]} - double{results[0].state.theta[i]});
    moved += sent != 0;
    ASSERT_EQ(total_produced, sent + total_held) << "weight " << i;
  }
  EXPECT_GT(held, first[0].size() / 10) << "the gate held nothing back: the data proves nothing";
  EXPECT_GT(moved, first[0].size() / 10) << "nothing was sent: the data proves nothing";
}

TEST(Conservation, ProducedEqualsSentPlusHeldForOneTrainer) {
  ExpectConserved(1, 40);
}
TEST(Conservation, ProducedEqualsSentPlusHeldForTwoTrainers) {
  ExpectConserved(2, 40);
}
TEST(Conservation, ProducedEqualsSentPlusHeldForFourTrainers) {
  ExpectConserved(4, 40);
}
TEST(Conservation, ProducedEqualsSentPlusHeldWhenValuesAreRounded) {
  ExpectConserved(2, 40, 0);
  ExpectConserved(4, 40, 1);
}

}  // namespace
}  // namespace pulse::loco
