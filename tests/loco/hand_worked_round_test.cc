// Two rounds of PULSELoCo worked out by hand: K = 2, H = 1, eight weights, the outer optimizer with
// lr = 0.5 and mu = 0.5. Every number is exact, so nothing here depends on rounding except the
// views.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/loco/job.h"

namespace pulse::loco {
namespace {

constexpr float kStep = 0x1p-10f;  // one AdamW step, up or down by the gradient's sign
constexpr float kUnit = 0x1p-14f;  // of theta, below: a step is 16 units
constexpr float kHeld = kStep;     // of residuals, below

// Around 0.25 the BF16 grid has steps of 32 units above and 16 below; around 1, 128 above, 64
// below. The last weight is a tensor of its own whose view is FP32: there every change is visible.
//
// clang-format off
//                            w0     w1     w2    w3             w4     w5     w6     w7
constexpr float kTheta[] = {0.25f, 0.25f, 1.0f, 16440 * kUnit, 0.0f, -0.0f, -0.25f, 1.0f};
constexpr float kGradients[2][8] = {{1, -1, 1, -1,  1, 0,  1, 1},    // trainer 0
                                    {1, -1, 0,  1, -1, 0, -1, 0}};   // trainer 1
// clang-format on

class HandTrainer final : public Trainer {
 public:
  HandTrainer()
      : schema_(*ModelSchema::Make({{"a", DType::kBF16, {7}}, {"b", DType::kF32, {1}}})) {}
  const ModelSchema& schema() const override { return schema_; }
  Status InitialWeights(std::span<float> weights) override {
    std::copy(std::begin(kTheta), std::end(kTheta), weights.begin());
    return OkStatus();
  }
  StatusOr<Metrics> Gradient(const LocalStep& step, std::span<const float>, std::span<const float>,
                             std::span<float> gradient) override {
    std::copy(std::begin(kGradients[step.trainer]), std::end(kGradients[step.trainer]),
              gradient.begin());
    return Metrics{{"games", 10 + step.trainer}};
  }
  StatusOr<Metrics> Evaluate(std::span<const float>, uint64_t, uint64_t) override {
    return Metrics{};
  }

 private:
  ModelSchema schema_;
};

// What trainer k holds after a round, all in the units above.
struct Expected {
  std::vector<float> theta, momentum, residual[2];
  uint64_t entries, view_changes;
};

// clang-format off
// Round 1.        w0  w1  w2  w3  w4  w5  w6  w7    (in steps)
//   s, trainer 0:  1  -1   1  -1   1   0   1   1
//   s, trainer 1:  1  -1   0   1  -1   0  -1   0
//
//   w0  0.25 - 16 units is on the grid below 0.25: both send.
//   w1  0.25 + 16 units is half a grid step above, a tie that goes to the even 0.25: both hold.
//   w2  1 - 16 units is within the 32 of half a step below 1: trainer 0 holds; a zero is not sent.
//   w3  1 + 56 units has the view 1; +16 passes the tie at 64: trainer 0 sends; -16: 1 holds.
//   w4  beside zero everything is visible: both send, and the sum is +0.
//   w5  -0 - (+0) = -0: the same bits, nothing to send.
//   w6  -0.25 - 16 units: a tie like w1, trainer 0 holds; -0.25 + 16 units is on the grid: 1 sends.
//   w7  FP32: trainer 0 sends what w2 held.
//
//   g = sum / 2:   1   0   0 -.5   0   0 -.5  .5      b = g
//   theta -= 0.5 * (g + 0.5 * b) = 0.75 g, which is 12 units for g = 1. Views change at w0, where
//   12 is past the 8 of 0.25's lower half-step, and at w7; w3's 6 stay below the tie, w6's below 8.
const Expected kRound1 = {
    .theta =    {4084, 4096, 16384, 16446, 0, -0.0f, -4090, 16378},
    .momentum = {1, 0, 0, -0.5f, 0, 0, -0.5f, 0.5f},
    .residual = {{0, -1, 1, 0, 0, 0, 1, 0},
                 {0, -1, 0, 1, 0, 0, 0, 0}},
    .entries = 4 + 3,
    .view_changes = 2};

// Round 2, the same gradients, with what was held added:
//   s, trainer 0:  1  -2   2  -1   1   0   2   1
//   s, trainer 1:  1  -2   0   2  -1   0  -1   0
//
//   w1  0.25 + 32 units is a grid point: what was held in round 1 goes out, from both.
//   w2  1 - 32 units: the tie below 1 goes to the even 1: still held.
//   w3  16446 + 16 passes 16448; 16446 - 32 does not leave 1: trainer 1 goes on holding.
//   w6  -4090 - 32 and -4090 + 16 both leave -4096's cell.
//
//   g:             1  -2   0 -.5   0   0  .5  .5
//   b = b/2 + g: 1.5  -2   0 -.75  0   0 .25 .75
//   theta -= 0.5 * (g + b/2), in steps:  0.875  -1.5  0  -0.4375  0  0  0.3125  0.4375
//   Views change at w0 (4084 -> 4070: from 4080's cell to 4064's), w1 (4120: past the tie at
//   4112), w3 (16453: past 16448) and w7.
const Expected kRound2 = {
    .theta =    {4070, 4120, 16384, 16453, 0, -0.0f, -4095, 16371},
    .momentum = {1.5f, -2, 0, -0.75f, 0, 0, 0.25f, 0.75f},
    .residual = {{0, 0, 2, 0, 0, 0, 0, 0},
                 {0, 0, 0, 2, 0, 0, 0, 0}},
    .entries = 6 + 4,
    .view_changes = 4};
// clang-format on

std::vector<float> Times(std::vector<float> values, float unit) {
  for (float& value : values) value *= unit;
  return values;
}

TEST(HandWorkedRound, ComesOutAsOnPaper) {
  Job job{.ranks = 2};
  job.options.rounds = 2;
  job.options.local_steps = 1;
  job.options.inner = SignSteps(kStep);
  job.options.outer = {.learning_rate = 0.5, .momentum = 0.5};
  job.make_trainer = [](int) { return std::make_unique<HandTrainer>(); };
  job.observe = [](int rank, const State& state, const RoundReport* report) {
    if (report == nullptr) return OkStatus();
    const Expected& expected = report->round == 1 ? kRound1 : kRound2;
    SCOPED_TRACE(fmt::format("rank {}, round {}", rank, report->round));
    EXPECT_EQ(BitsOf(state.theta), BitsOf(Times(expected.theta, kUnit)));
    EXPECT_EQ(state.outer_momentum, Times(expected.momentum, kStep));
    EXPECT_EQ(state.residual, Times(expected.residual[rank], kHeld));
    EXPECT_EQ(report->entries, expected.entries);
    EXPECT_EQ(report->gate_density, static_cast<double>(expected.entries) / 16);
    EXPECT_EQ(report->view_changes, expected.view_changes);
    EXPECT_EQ(report->metrics, (Metrics{{"games", 21}}));
    // 2 (K-1)/K * 4N = 32 bytes densely; H = 1, so ddp's figure is the same.
    EXPECT_EQ(report->dense_diloco_bytes, 32u);
    EXPECT_EQ(report->ddp_bytes, 32u);
    return OkStatus();
  };
  RunJobOrFail(job);
}

}  // namespace
}  // namespace pulse::loco
