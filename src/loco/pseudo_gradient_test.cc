#include "loco/pseudo_gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/rng.h"
#include "loco/outer_phase.h"

namespace pulse::loco {
namespace {

using kernels::GateView;

kernels::KernelTable Kernels() {
  return *kernels::ChooseKernels("auto");
}

TEST(ViewRuns, JoinNeighboursOfOneView) {
  const auto schema = ModelSchema::Make({{"a", DType::kBF16, {3}},
                                         {"b", DType::kBF16, {0, 7}},
                                         {"c", DType::kBF16, {5}},
                                         {"d", DType::kF32, {2}},
                                         {"e", DType::kBF16, {}}});
  const auto runs = ViewRunsOf(*schema);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(*runs,
            (std::vector<ViewRun>{
                {GateView::kBF16, 0, 8}, {GateView::kF32, 8, 10}, {GateView::kBF16, 10, 11}}));
}

TEST(ViewRuns, PiecesCoverARangeOnce) {
  const std::vector<ViewRun> runs = {{GateView::kBF16, 0, 10}, {GateView::kF32, 10, 25}};
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  ForEachPiece(runs, 3, 21, 4, [&](GateView view, uint64_t begin, uint64_t end) {
    EXPECT_EQ(view, begin < 10 ? GateView::kBF16 : GateView::kF32);
    pieces.push_back({begin, end});
  });
  EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{
                        {3, 7}, {7, 10}, {10, 14}, {14, 18}, {18, 21}}));
}

// Over two and a bit blocks, with a change of view inside the second and weights of all sizes.
struct Data {
  static constexpr uint64_t kElements = 2 * kSparseBlockElements + 4321;
  static constexpr uint64_t kBorder = kSparseBlockElements + 77'777;
  std::vector<ViewRun> runs = {{GateView::kBF16, 0, kBorder}, {GateView::kF32, kBorder, kElements}};
  std::vector<float> theta, w, residual;

  Data() {
    Rng rng(3, {});
    for (uint64_t i = 0; i < kElements; ++i) {
      theta.push_back(rng.Normal() * (i % 3 == 0 ? 0.02f : i % 3 == 1 ? 1e-5f : 2.0f));
      w.push_back(theta.back() + rng.Normal() * 1e-5f);
      residual.push_back(i % 5 == 0 ? rng.Normal() * 1e-5f : 0.0f);
    }
  }
};

uint16_t ViewBits(float x) {  // finite values only
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

TEST(PseudoGradient, SplitsSIntoSentAndHeldBitForBit) {
  Data data;
  const std::vector<float> before = data.residual;
  Workers workers(2);
  PseudoGradient gate(Kernels(), workers, data.runs, false);
  const SparseUpdate update = gate.Gate(data.theta, data.w, data.residual);
  ASSERT_TRUE(Validate(update).ok()) << Validate(update);
  ASSERT_EQ(update.elements, Data::kElements);
  std::vector<float> sent(Data::kElements);
  std::vector<uint8_t> is_sent(Data::kElements);
  for (size_t b = 0; b < update.blocks(); ++b) {
    for (size_t i = 0; i < update.BlockPositions(b).size(); ++i) {
      const uint64_t at = b * kSparseBlockElements + update.BlockPositions(b)[i];
      sent[at] = update.BlockValues(b)[i];
      is_sent[at] = 1;
    }
  }
  size_t wrong = 0, passed = 0;
  for (uint64_t i = 0; i < Data::kElements; ++i) {
    const float s = (data.theta[i] - data.w[i]) + before[i];
    const float moved = data.theta[i] - s;
    const bool visible = i < Data::kBorder ? ViewBits(moved) != ViewBits(data.theta[i])
                                           : std::bit_cast<uint32_t>(moved) !=
                                                 std::bit_cast<uint32_t>(data.theta[i]);
    const float kept = visible ? data.residual[i] : sent[i];
    const float whole = visible ? sent[i] : data.residual[i];
    wrong += visible != (is_sent[i] != 0) || std::bit_cast<uint32_t>(kept) != 0 ||  // +0
             std::bit_cast<uint32_t>(whole) != std::bit_cast<uint32_t>(s);
    passed += visible;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(passed, Data::kElements / 4);
  EXPECT_LT(passed, Data::kElements * 9 / 10);
}

TEST(PseudoGradient, OpenGateSendsEverything) {
  Data data;
  Workers workers(2);
  PseudoGradient gate(Kernels(), workers, data.runs, true);
  const SparseUpdate update = gate.Gate(data.theta, data.w, data.residual);
  ASSERT_TRUE(Validate(update).ok());
  EXPECT_EQ(update.entries(), Data::kElements);
  for (const float held : data.residual) ASSERT_EQ(held, 0);
}

TEST(PseudoGradient, DenseIsTheDifference) {
  Data data;
  Workers workers(2);
  PseudoGradient gate(Kernels(), workers, data.runs, true);
  std::vector<float> s(Data::kElements);
  gate.Dense(data.theta, data.w, s);
  for (uint64_t i = 0; i < Data::kElements; ++i) ASSERT_EQ(s[i], data.theta[i] - data.w[i]);
}

TEST(PseudoGradient, GivesTheSameBytesWithAnyNumberOfThreads) {
  Data one;
  Workers single(1);
  const SparseUpdate update =
      PseudoGradient(Kernels(), single, one.runs, false).Gate(one.theta, one.w, one.residual);
  std::vector<float> dense(Data::kElements);
  PseudoGradient(Kernels(), single, one.runs, true).Dense(one.theta, one.w, dense);
  for (const size_t threads : {2, 3, 5}) {
    Data several;
    Workers workers(threads);
    PseudoGradient gate(Kernels(), workers, several.runs, false);
    const SparseUpdate found = gate.Gate(several.theta, several.w, several.residual);
    EXPECT_EQ(found.starts, update.starts);
    EXPECT_TRUE(found.positions == update.positions);
    EXPECT_TRUE(found.values == update.values);
    EXPECT_TRUE(several.residual == one.residual);
    std::vector<float> s(Data::kElements);
    gate.Dense(one.theta, one.w, s);
    EXPECT_TRUE(s == dense);
  }
}

TEST(OuterPhase, GivesTheSameBitsWithAnyNumberOfThreads) {
  const auto step = [](size_t threads, std::vector<float>& theta) {
    Data data;
    Workers workers(threads);
    OuterPhase outer({}, 3, Kernels(), workers, data.runs);
    std::vector<float> momentum = data.residual;
    const uint64_t changed = outer.Step(data.w, momentum, data.theta);
    theta = data.theta;
    theta.insert(theta.end(), momentum.begin(), momentum.end());
    return changed;
  };
  std::vector<float> expected, found;
  const uint64_t changed = step(1, expected);
  for (const size_t threads : {2, 3, 5}) {
    EXPECT_EQ(step(threads, found), changed);
    EXPECT_TRUE(found == expected);
  }
}

TEST(OuterPhase, CountsChangesOfTheView) {
  Data data;
  Workers workers(2);
  OuterPhase outer({.learning_rate = 0.5, .momentum = 0.5}, 1, Kernels(), workers, data.runs);
  std::vector<float> sum(Data::kElements), momentum(Data::kElements);
  for (uint64_t i = 0; i < Data::kElements; ++i) sum[i] = data.theta[i] - data.w[i];
  const std::vector<float> before = data.theta;
  const uint64_t changes = outer.Step(sum, momentum, data.theta);
  uint64_t expected = 0;
  for (uint64_t i = 0; i < Data::kElements; ++i) {
    expected += i < Data::kBorder ? ViewBits(before[i]) != ViewBits(data.theta[i])
                                  : before[i] != data.theta[i];
  }
  EXPECT_EQ(changes, expected);
  EXPECT_EQ(outer.CountChanged(before, data.theta), expected);
  EXPECT_GT(changes, 0u);
}

}  // namespace
}  // namespace pulse::loco
