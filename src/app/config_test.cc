#include "app/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse {
namespace {

using testing::StartsWith;

std::string ErrorOf(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const auto config = ParseConfig(text, "a.yaml", overrides);
  return config.ok() ? "" : std::string(ToStd(config.status().message()));
}

TEST(Config, ReadsValuesAndKeepsDefaultsForTheRest) {
  const auto config = ParseConfig(
      "loco:\n  mode: diloco\n  local_steps: 4\n  sites: [0, 0, 1]\n  deadline: 30s\nadam: "
      "{learning_rate: 1e-5}\n",
      "a.yaml", {"loco.local_steps=16", "run.name=x"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->loco.mode, "diloco");
  EXPECT_EQ(config->loco.local_steps, 16u);
  EXPECT_EQ(config->loco.sites, (std::vector<uint64_t>{0, 0, 1}));
  EXPECT_EQ(config->loco.deadline_ms, 30'000u);
  EXPECT_EQ(config->adam.learning_rate, 1e-5);
  EXPECT_EQ(config->run.name, "x");
  EXPECT_EQ(config->adam.beta2, RunConfig{}.adam.beta2);
}

TEST(Config, AnEmptyFileIsAllDefaults) {
  EXPECT_EQ(ErrorOf(""), "");
  EXPECT_EQ(ErrorOf("loco:\n"), "");
}

TEST(Config, ErrorsNameFileLineKeyAndWhatWasExpected) {
  EXPECT_THAT(
      ErrorOf("loco:\n  local_step: 4\n"),
      StartsWith("a.yaml:2: unknown key \"loco.local_step\"; known here: codec, deadline, "));
  EXPECT_EQ(ErrorOf("loco:\n  mode: diloco\n  local_steps: eight\n"),
            "a.yaml:3: loco.local_steps must be a whole number from 1 to 100000, not \"eight\"");
  EXPECT_EQ(ErrorOf("loco:\n  local_steps: -1\n"),
            "a.yaml:2: loco.local_steps must be a whole number from 1 to 100000, not \"-1\"");
  EXPECT_EQ(ErrorOf("loco: {mode: fsdp}\n"),
            "a.yaml:1: loco.mode must be one of pulseloco, diloco, ddp, not \"fsdp\"");
  EXPECT_EQ(ErrorOf("adam: {beta1: nan}\n"),
            "a.yaml:1: adam.beta1 must be a number from 0 to 0.99999, not \"nan\"");
  EXPECT_EQ(ErrorOf("loco: 3\n"), "a.yaml:1: loco is a section of keys, not a value");
  EXPECT_EQ(ErrorOf("- a\n"), "a.yaml: expected keys and values, such as \"loco:\"");
  EXPECT_EQ(ErrorOf("run: {seed: 1}\nrun: {name: b}\n"), "a.yaml:2: run is given twice");
  EXPECT_EQ(ErrorOf("publish: {enabled: yes}\n"),
            "a.yaml:1: publish.enabled must be true or false, not \"yes\"");
}

TEST(Config, ADurationWithoutOrWithAWrongUnitIsRefused) {
  const std::string expected =
      "a.yaml:1: loco.deadline must be a duration with its unit (500ms, 30s, 5m) from 100ms to "
      "86400000ms, not \"{}\"";
  EXPECT_EQ(ErrorOf("loco: {deadline: 30}\n"), fmt::format(fmt::runtime(expected), "30"));
  EXPECT_EQ(ErrorOf("loco: {deadline: 30MB}\n"), fmt::format(fmt::runtime(expected), "30MB"));
  EXPECT_EQ(ErrorOf("loco: {deadline: 99999999m}\n"),
            fmt::format(fmt::runtime(expected), "99999999m"));
}

TEST(Config, ABrokenFileNamesItsLine) {
  EXPECT_EQ(ErrorOf("loco:\n  mode: [\n").substr(0, 8), "a.yaml:3");
}

TEST(Config, OverridesAreCheckedLikeLines) {
  EXPECT_EQ(ErrorOf("", {"loco.rounds"}),
            "--set loco.rounds: expected KEY=VALUE, such as loco.local_steps=4");
  EXPECT_EQ(
      ErrorOf("", {"loco.rounds=0"}),
      "--set loco.rounds=0: loco.rounds must be a whole number from 1 to 1000000000, not \"0\"");
  EXPECT_EQ(ErrorOf("", {"nope=1"}).substr(0, 32), "--set nope=1: unknown key \"nope\"");
}

TEST(Config, WritesYamlThatReadsBackToTheSameText) {
  RunConfig config;
  config.run.dir = "a \"b\": #c";
  config.loco.sites = {0, 1, 1};
  config.adam.learning_rate = 3.3e-6;
  const std::string yaml = ConfigToYaml(config);
  const auto again = ParseConfig(yaml, "b.yaml", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ConfigToYaml(*again), yaml);
  EXPECT_EQ(again->run.dir, config.run.dir);
}

}  // namespace
}  // namespace pulse
