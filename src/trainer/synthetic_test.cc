#include "trainer/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/on_host.h"

namespace pulse {
namespace {

SyntheticOptions SmallOptions(SyntheticData data = SyntheticData::kNoise) {
  SyntheticOptions options;
  options.tensors = {{"a", DType::kBF16, {100, 100}}, {"b", DType::kF32, {37}}};
  options.seed = 7;
  options.data = data;
  return options;
}

std::vector<float> GradientOf(SyntheticTrainer& trainer, uint32_t k, uint64_t step) {
  std::vector<float> gradient(trainer.schema().elements(), -1.0f);
  const std::vector<float> weights(gradient.size());
  EXPECT_TRUE(trainer.Gradient({k, 4, 0, step}, weights, weights, gradient).ok());
  return gradient;
}

std::unique_ptr<SyntheticTrainer> MakeOrDie(SyntheticOptions options) {
  auto trainer = SyntheticTrainer::Make(std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return std::move(*trainer);
}

TEST(SyntheticTrainer, WeightsLookLikeALanguageModels) {
  const auto trainer = MakeOrDie(SmallOptions());
  std::vector<float> weights(trainer->schema().elements());
  ASSERT_TRUE(trainer->InitialWeights(weights).ok());
  double sum = 0, squares = 0;
  for (const float w : weights) sum += w, squares += double{w} * double{w};
  const double count = static_cast<double>(weights.size());
  // Five standard errors: 0.02 / sqrt(10037) each for the mean, and that / sqrt(2) for the
  // deviation.
  EXPECT_NEAR(sum / count, 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 5 * 0.02 / std::sqrt(2 * count));
}

TEST(SyntheticTrainer, GradientIsAFunctionOfSeedTrainerAndStep) {
  const auto trainer = MakeOrDie(SmallOptions());
  const auto twin = MakeOrDie(SmallOptions());
  EXPECT_EQ(GradientOf(*trainer, 1, 5), GradientOf(*twin, 1, 5));
  EXPECT_NE(GradientOf(*trainer, 1, 5), GradientOf(*trainer, 2, 5));
  EXPECT_NE(GradientOf(*trainer, 1, 5), GradientOf(*trainer, 1, 6));
  SyntheticOptions other = SmallOptions();
  other.seed = 8;
  EXPECT_NE(GradientOf(*trainer, 1, 5), GradientOf(*MakeOrDie(other), 1, 5));
}

TEST(SyntheticTrainer, KnownValuesStay) {
  // Written down when the generator was: a change of it would quietly change every recorded figure.
  const auto trainer = MakeOrDie(SmallOptions());
  std::vector<float> weights(trainer->schema().elements());
  ASSERT_TRUE(trainer->InitialWeights(weights).ok());
  const auto gradient = GradientOf(*trainer, 1, 5);
  EXPECT_EQ(weights[0], -0x1.a43d7p-9f);
  EXPECT_EQ(gradient[0], 0x1.f85002p-5f);
  EXPECT_EQ(gradient[5000], 0x1.0d10ccp-3f);
}

TEST(SyntheticTrainer, InactiveWeightsNeverGetAGradient) {
  SyntheticOptions options = SmallOptions();
  options.active_share = 0.25f;
  const auto trainer = MakeOrDie(options);
  const auto first = GradientOf(*trainer, 0, 0);
  const auto later = GradientOf(*trainer, 3, 17);
  size_t active = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    active += first[i] != 0;
    if (first[i] == 0) {
      EXPECT_EQ(later[i], 0) << i;
    }
  }
  EXPECT_NEAR(static_cast<double>(active) / static_cast<double>(first.size()), 0.25, 0.025);
}

TEST(SyntheticTrainer, FullSignalIsTheSameMarchAtEveryStep) {
  SyntheticOptions options = SmallOptions();
  options.signal = 1;
  options.gradient_scale = 0.5f;
  const auto trainer = MakeOrDie(options);
  const auto first = GradientOf(*trainer, 0, 0);
  EXPECT_EQ(first, GradientOf(*trainer, 2, 9));
  for (const float g : first) EXPECT_EQ(std::fabs(g), 0.5f);
}

TEST(SyntheticTrainer, ExactDataIsSmallIntegersTimesTheScale) {
  SyntheticOptions options = SmallOptions(SyntheticData::kExact);
  options.gradient_scale = 0x1p-4f;
  const auto trainer = MakeOrDie(options);
  for (const float g : GradientOf(*trainer, 2, 1)) {
    const float integer = g * 0x1p4f;
    EXPECT_EQ(integer, std::floor(integer));
    EXPECT_LE(std::fabs(integer), 7);
  }
}

TEST(SyntheticTrainer, CancellingDataTellsEveryOrderApart) {
  const auto trainer = MakeOrDie(SmallOptions(SyntheticData::kCancelling));
  std::vector<std::vector<float>> g;
  for (uint32_t k = 0; k < 4; ++k) g.push_back(GradientOf(*trainer, k, 0));
  const size_t n = g[0].size();
  const auto sum = [&](std::vector<size_t> order) {
    std::vector<float> total(n);
    for (const size_t k : order) {
      for (size_t i = 0; i < n; ++i) total[i] += g[k][i];
    }
    return total;
  };
  const auto in_order = sum({0, 1, 2, 3});
  std::vector<size_t> order = {0, 1, 2, 3};
  while (std::next_permutation(order.begin(), order.end())) {
    if (order == std::vector<size_t>{1, 0, 2, 3}) continue;  // FP32 addition commutes
    const auto other = sum(order);
    size_t differ = 0;
    for (size_t i = 0; i < n; ++i) differ += other[i] != in_order[i];
    EXPECT_GT(differ, n / 10) << order[0] << order[1] << order[2] << order[3];
  }
}

TEST(SyntheticTrainer, FaultsComeWhereTheyWereAskedFor) {
  SyntheticOptions options = SmallOptions();
  options.non_finite = {{1, 3}};
  options.errors = {{2, 4}};
  const auto trainer = MakeOrDie(options);
  EXPECT_TRUE(std::isinf(GradientOf(*trainer, 1, 3).front()));
  EXPECT_TRUE(std::isnan(GradientOf(*trainer, 1, 3).back()));
  EXPECT_TRUE(std::isfinite(GradientOf(*trainer, 1, 2).front()));
  EXPECT_TRUE(std::isfinite(GradientOf(*trainer, 2, 3).front()));
  std::vector<float> gradient(trainer->schema().elements());
  EXPECT_EQ(trainer->Gradient({2, 4, 0, 4}, gradient, gradient, gradient).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(SyntheticTrainer, RefusesSharesOutsideZeroToOne) {
  SyntheticOptions options = SmallOptions();
  options.signal = 1.5f;
  EXPECT_EQ(SyntheticTrainer::Make(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = SmallOptions();
  options.active_share = -1;
  EXPECT_EQ(SyntheticTrainer::Make(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LlmLikeTensors, AddUpToWhatWasAskedFor) {
  for (const uint64_t parameters : {1ull, 1000ull, 431'000ull, 10'000'000ull, 7'000'000'000ull}) {
    const auto schema = ModelSchema::Make(LlmLikeTensors(parameters));
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_EQ(schema->elements(), parameters);
  }
}

TEST(SyntheticTrainer, ComputesRangesOfItsGradient) {
  for (const auto data :
       {SyntheticData::kNoise, SyntheticData::kExact, SyntheticData::kCancelling}) {
    SyntheticOptions options;
    options.tensors = {{"a", DType::kBF16, {3 * 4096 + 77}}};
    options.data = data;
    options.active_share = 0.7f;
    options.non_finite = {{1, 5}};
    const auto trainer = *SyntheticTrainer::Make(options);
    const uint64_t elements = trainer->schema().elements();
    for (const uint64_t step : {4u, 5u}) {
      const LocalStep at = {.trainer = 1, .step = step, .micro_batch = 1, .micro_batches = 2};
      std::vector<float> whole(elements), parts(elements, 9);
      ASSERT_TRUE(trainer->Gradient(at, whole, whole, whole).ok());
      uint64_t begin = 0;
      for (const uint64_t end : {uint64_t{16}, uint64_t{4096}, uint64_t{4096}, uint64_t{5000},
                                 uint64_t{12'300}, elements}) {
        const auto part = std::span(parts).subspan(begin, end - begin);
        ASSERT_TRUE(trainer->GradientRange(at, begin, part, part, part).ok());
        begin = end;
      }
      for (uint64_t i = 0; i < elements; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(parts[i]), std::bit_cast<uint32_t>(whole[i])) << i;
      }
    }
  }
}

// A thread takes a pack of elements, which may lie in two chunks, or one.
template <int kPack>
DeviceCode RunOnHost(const kernels::SyntheticGradientOp& op, DeviceStream /*stream*/) {
  kernels::RunElementsOnHost<kPack>(op, kernels::PlanElements(op.n, kPack));
  return 0;
}

TEST(DeviceSyntheticTrainer, ComputesRangesOfTheHostsGradient) {
  for (const auto data :
       {SyntheticData::kNoise, SyntheticData::kExact, SyntheticData::kCancelling}) {
    SyntheticOptions options;
    options.tensors = {{"a", DType::kBF16, {3 * 4096 + 77}}};
    options.data = data;
    options.non_finite = {{1, 5}};
    const auto host = *SyntheticTrainer::Make(options);
    const uint64_t elements = host->schema().elements();
    for (const auto launch : {RunOnHost<1>, RunOnHost<4>}) {
      DeviceSyntheticTrainer trainer(*host, launch);
      EXPECT_TRUE(trainer.computes_ranges());
      for (const uint64_t step : {4u, 5u}) {
        const LocalStep at = {.trainer = 1, .step = step, .micro_batch = 1, .micro_batches = 2};
        std::vector<float> whole(elements), parts(elements, 9);
        ASSERT_TRUE(host->Gradient(at, whole, whole, whole).ok());
        uint64_t begin = 0;
        for (const uint64_t end : {uint64_t{17}, uint64_t{4097}, uint64_t{4097}, uint64_t{5003},
                                   uint64_t{12'300}, elements}) {
          const DeviceSpan<float> part(parts.data() + begin, end - begin);
          ASSERT_TRUE(trainer.GradientRange(at, begin, part, part, part, {}).ok());
          begin = end;
        }
        for (uint64_t i = 0; i < elements; ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(parts[i]), std::bit_cast<uint32_t>(whole[i])) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pulse
