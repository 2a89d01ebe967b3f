#include "loco/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace pulse::loco {
namespace {

using testing::HasSubstr;

void ExpectRefused(const Options& options, std::string_view part) {
  const Status status = Validate(options, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr(std::string(part)));
}

TEST(Options, DefaultsAreValid) {
  EXPECT_TRUE(Validate(Options{}, 1).ok());
}

TEST(Options, NamesWhatIsSentOfValues) {
  EXPECT_EQ(*ValuesFromName("exact"), std::nullopt);
  EXPECT_EQ(*ValuesFromName("ulp:4"), 4u);
  EXPECT_EQ(NameOfValues(12), "ulp:12");
  for (const char* name : {"ulp:13", "ulp:", "ulp", "", "ulp:-1", "Exact"}) {
    EXPECT_EQ(ValuesFromName(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(Options, RefusesWhatCanNotWorkAndNamesIt) {
  const auto refused = [](auto change, std::string_view part) {
    Options options;
    change(options);
    ExpectRefused(options, part);
  };
  refused([](Options& o) { o.rounds = 0; }, "rounds is 0");
  refused([](Options& o) { o.rounded_values = 13; }, "values are ulp:13; expected at most ulp:12");
  refused(
      [](Options& o) {
        o.mode = Mode::kDiloco;
        o.rounded_values = 4;
      },
      "values are ulp:4 in mode diloco");
  refused([](Options& o) { o.local_steps = 0; }, "local_steps is 0");
  refused([](Options& o) { o.rounds = uint64_t{1} << 30; }, "local steps are more than");
  refused([](Options& o) { o.inner.learning_rate = 0; }, "inner learning_rate is 0");
  refused([](Options& o) { o.inner.learning_rate = 1e300; }, "inner learning_rate");
  refused([](Options& o) { o.inner.beta1 = 1; }, "inner beta1 is 1");
  refused([](Options& o) { o.inner.beta2 = -0.1; }, "inner beta2 is -0.1");
  // 0 / 0 for a weight without gradient: epsilon must survive the rounding to FP32.
  refused([](Options& o) { o.inner.epsilon = 1e-60; }, "inner epsilon");
  refused([](Options& o) { o.inner.weight_decay = -1; }, "weight_decay is -1");
  refused([](Options& o) { o.outer.learning_rate = std::numeric_limits<double>::quiet_NaN(); },
          "outer learning_rate is nan");
  refused([](Options& o) { o.outer.momentum = 1; }, "outer momentum is 1");
  refused([](Options& o) { o.mode = Mode::kDdp, o.gate_open = true; }, "gate_open");
  refused([](Options& o) { o.sites = {0, 1}; }, "sites lists 2 trainers; this job has 3");
  refused([](Options& o) { o.sites = {0, 2, 2}; }, "no trainer at site 1");
  refused([](Options& o) { o.deadline_ms = 0; }, "deadlines are 0");
}

TEST(Options, NamesReadBack) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDiloco, Mode::kDdp}) {
    EXPECT_EQ(*ModeFromName(NameOf(mode)), mode);
  }
  for (const auto weights : {RolloutWeights::kGlobal, RolloutWeights::kLocal}) {
    EXPECT_EQ(*RolloutWeightsFromName(NameOf(weights)), weights);
  }
  for (const auto what : {OnNonFinite::kDrop, OnNonFinite::kStop}) {
    EXPECT_EQ(*OnNonFiniteFromName(NameOf(what)), what);
  }
  EXPECT_THAT(std::string(ToStd(ModeFromName("fsdp").status().message())),
              HasSubstr("pulseloco, diloco, ddp"));
}

}  // namespace
}  // namespace pulse::loco
