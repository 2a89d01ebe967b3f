#include "loco/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace pulse::loco {
namespace {

using testing::HasSubstr;

ModelSchema Schema() {
  return *ModelSchema::Make({{"a", DType::kBF16, {2, 3}}});
}

std::string Explain(std::vector<std::string_view> texts) {
  return std::string(ToStd(ExplainDifference(texts).message()));
}

TEST(Fingerprint, ChangesWithEverySettingThatThetaDependsOn) {
  const Digest base = FingerprintOf({}, 4, Schema()).digest();
  const std::vector<std::function<void(Options&)>> changes = {
      [](Options& o) { o.mode = Mode::kDiloco; },
      [](Options& o) { o.rounds = 2; },
      [](Options& o) { o.local_steps = 9; },
      [](Options& o) { o.inner.learning_rate = 2e-6; },
      [](Options& o) { o.inner.beta1 = 0.91; },
      [](Options& o) { o.inner.beta2 = 0.96; },
      [](Options& o) { o.inner.epsilon = 1e-9; },
      [](Options& o) { o.inner.weight_decay = 0.1; },
      [](Options& o) { o.outer.learning_rate = 0.71; },
      [](Options& o) { o.outer.momentum = 0.91; },
      [](Options& o) { o.gate_open = true; },
      [](Options& o) { o.rollout_weights = RolloutWeights::kLocal; },
      [](Options& o) { o.on_non_finite = OnNonFinite::kStop; },
      [](Options& o) {
        o.sites = {0, 0, 1, 1};
      },
      // No bit depends on these, but ranks that disagreed would make different calls.
      [](Options& o) { o.exchange = ExchangeKind::kDense; },
      [](Options& o) { o.exchange_memory_bytes = 1; },
      [](Options& o) { o.codec = UpdateCodecName::kFast; },
      [](Options& o) { o.rounded_values = 0; },
      [](Options& o) { o.seed = 2; },
      [](Options& o) { o.agreed.emplace("games", "8"); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Options options;
    changes[i](options);
    EXPECT_NE(FingerprintOf(options, 4, Schema()).digest(), base) << "change " << i;
  }
  EXPECT_NE(FingerprintOf({}, 5, Schema()).digest(), base);
  EXPECT_NE(FingerprintOf({}, 4, *ModelSchema::Make({{"a", DType::kBF16, {3, 2}}})).digest(), base);
}

TEST(Fingerprint, LeavesDeadlinesToEachRank) {
  Options options;
  options.deadline_ms = 5;
  EXPECT_EQ(FingerprintOf(options, 4, Schema()).digest(), FingerprintOf({}, 4, Schema()).digest());
}

TEST(Fingerprint, TellsNeighbouringDoublesApart) {
  Options options;
  options.inner.learning_rate = std::nextafter(options.inner.learning_rate, 1.0);
  EXPECT_NE(FingerprintOf(options, 4, Schema()).digest(), FingerprintOf({}, 4, Schema()).digest());
}

TEST(Fingerprint, ValueCanNotPassForAnotherField) {
  Fingerprint two, one;
  two.Add("a", "1");
  two.Add("b", "2");
  one.Add("a", "1\nb=2");
  EXPECT_NE(two.digest(), one.digest());
}

TEST(ExplainDifference, NamesFieldValuesAndRanks) {
  EXPECT_THAT(Explain({"h=8\nx=1\n", "h=8\nx=1\n", "h=4\nx=1\n"}),
              HasSubstr("differ: h is 8 on rank 0, 1 and 4 on rank 2; start"));
  EXPECT_THAT(Explain({"h=8\n", "h=8\nextra=1\n"}),
              HasSubstr("extra is missing on rank 0 and 1 on rank 1"));
}

TEST(ExplainDifference, NamesThreeFieldsAndCountsTheRest) {
  EXPECT_THAT(Explain({"a=1\nb=1\nc=1\nd=1\ne=1\n", "a=2\nb=2\nc=2\nd=2\ne=2\n"}),
              HasSubstr("c is 1 on rank 0 and 2 on rank 1; and 2 more; start"));
}

TEST(ExplainDifference, IsFineWithEqualTexts) {
  EXPECT_TRUE(ExplainDifference(std::vector<std::string_view>{"a=1\n", "a=1\n"}).ok());
}

TEST(ExplainDifference, TakesAnyBytes) {
  const std::string noise("\0=\n\n==\xff\nno equals", 18);
  EXPECT_FALSE(Explain({"a=1\n", noise}).empty());
  EXPECT_FALSE(Explain({"", noise, "\n"}).empty());
  std::string longest = "a=";
  longest.append(100'000, 'x');
  EXPECT_LT(Explain({"a=1\n", longest}).size(), 1000u);
}

TEST(ExplainChange, LetsARunGoOnByAnotherExchangeButNotWithAnotherSum) {
  const std::string then = FingerprintOf({}, 4, Schema()).text();
  Options options;
  options.rounds = 7;
  options.exchange = ExchangeKind::kDense;
  options.exchange_memory_bytes = 1;
  EXPECT_EQ(ExplainChange("it", then, FingerprintOf(options, 4, Schema()).text()), OkStatus());
  options.sites = {0, 0, 1, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(
      ExplainChange("it", then, FingerprintOf(options, 4, Schema()).text())));
}

}  // namespace
}  // namespace pulse::loco
