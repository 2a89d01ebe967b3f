// A training run with its arrays on a device (mocked, with emulated kernels) leaves what the same
// run on the CPU leaves: digests of theta, versions, final weights, and every byte of every delta.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/training.h"
#include "collective/in_process.h"
#include "device/mocked_device.h"
#include "kernels/cuda/emulated_kernels.h"
#include "store/temporary_folder.h"
#include "trainer/synthetic.h"

namespace pulse {
namespace {

constexpr size_t kRanks = 2;

struct Outcome {
  std::map<uint64_t, std::string> theta, versions;  // by round
  std::map<std::string, Bytes> payloads;            // deltas and anchors, by number and name
  Bytes final_weights;
};

class TrainingOnADevice : public testing::Test {
 protected:
  RunConfig ConfigIn(const std::string& folder, const std::vector<std::string>& overrides) const {
    auto config = ParseConfig(fmt::format("run: {{dir: {}, seed: 3}}\n"
                                          "loco: {{rounds: 4, local_steps: 2, deadline: 20s}}\n"
                                          "adam: {{learning_rate: 1e-5}}\n"
                                          "trainer: {{kind: synthetic, elements: 60000}}\n"
                                          "checkpoint: {{every: 2}}\n"
                                          "evaluate: {{samples: 3}}\n"
                                          "log_level: \"off\"\n",
                                          folder),
                              "test", overrides);
    EXPECT_TRUE(config.ok()) << config.status();
    return *config;
  }

  // The status of each rank.
  std::vector<Status> Train(const RunConfig& config, bool resume = false) {
    auto group = MakeInProcessGroup(kRanks).value();
    std::vector<Status> results(kRanks);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r, communicator = std::move(group[r])] {
        MockedDevice device;
        {
          const std::atomic<bool> never = false;
          const Console console = {.progress = ShowProgress::kNever, .clock = &clock_};
          TrainingDeps deps{*communicator, {}, *fs_, clock_, console, never, resume};
          deps.open_cuda = [&](uint64_t) {
            return Cuda{device.Table(), kernels::EmulatedKernels(device)};
          };
          results[r] = RunTraining(config, deps);
        }
        EXPECT_EQ(device.live(), 0u);
        EXPECT_TRUE(device.violations().empty()) << device.violations().front();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  static Outcome Read(const std::string& folder) {
    Outcome outcome;
    std::ifstream metrics(folder + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["type"] == "round") outcome.theta[row["round"]] = row["theta_digest"];
      if (row["type"] == "version") outcome.versions[row["round"]] = row["digest"];
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/bucket")) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("delta-") && !name.starts_with("anchor-")) continue;
      // 1.3.<nonce>/delta-00000.safetensors: without the nonce, which is each run's own.
      const std::string version = entry.path().parent_path().filename();
      outcome.payloads[version.substr(0, version.rfind('.')) + "/" + name] = Whole(entry.path());
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().find("final") != std::string::npos) {
        outcome.final_weights = Whole(entry.path());
      }
    }
    return outcome;
  }
  static Bytes Whole(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
  }

  static void ExpectSame(const Outcome& device, const Outcome& cpu) {
    EXPECT_EQ(device.theta, cpu.theta);
    EXPECT_EQ(device.versions, cpu.versions);
    EXPECT_FALSE(cpu.final_weights.empty());
    EXPECT_TRUE(device.final_weights == cpu.final_weights);
    ASSERT_EQ(device.payloads.size(), cpu.payloads.size());
    for (const auto& [name, bytes] : cpu.payloads) {
      ASSERT_TRUE(device.payloads.contains(name)) << name;
      EXPECT_TRUE(device.payloads.at(name) == bytes) << name;
    }
  }

  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
  RealClock clock_;
};

TEST_F(TrainingOnADevice, LeavesWhatTheRunOnTheCpuLeaves) {
  for (const char* codec : {"small", "fast"}) {
    SCOPED_TRACE(codec);
    const TemporaryFolder cpu, device;
    const std::string publish = std::string("publish.codec=") + codec;
    for (const Status& status : Train(ConfigIn(cpu.path() + "/run", {publish}))) {
      ASSERT_EQ(status, OkStatus());
    }
    for (const Status& status : Train(ConfigIn(device.path() + "/run", {publish, "device=cuda"}))) {
      ASSERT_EQ(status, OkStatus());
    }
    const Outcome expected = Read(cpu.path() + "/run");
    EXPECT_EQ(expected.theta.size(), 4u);
    EXPECT_EQ(expected.versions.size(), 5u);
    EXPECT_GE(expected.payloads.size(), 5u);
    ExpectSame(Read(device.path() + "/run"), expected);
  }
}

// The CPU runs four rounds; the device resumes from there for two more, and adopts or continues the
// versions: all of it as the CPU alone does it in six.
TEST_F(TrainingOnADevice, GoesOnWhereARunOnTheCpuWasLeft) {
  const TemporaryFolder whole, halves;
  const std::string run = halves.path() + "/run";
  for (const bool on_device : {false, true}) {
    const std::string folder = on_device ? run : whole.path() + "/run";
    for (const Status& status : Train(ConfigIn(folder, {"checkpoint.keep=9"}))) {
      ASSERT_EQ(status, OkStatus());
    }
    const std::vector<std::string> more =
        on_device ? std::vector<std::string>{"loco.rounds=6", "device=cuda"}
                  : std::vector<std::string>{"loco.rounds=6"};
    for (const Status& status : Train(ConfigIn(folder, more), true)) {
      ASSERT_EQ(status, OkStatus());
    }
  }
  const Outcome expected = Read(whole.path() + "/run");
  EXPECT_EQ(expected.theta.size(), 6u);
  ExpectSame(Read(run), expected);
}

TEST_F(TrainingOnADevice, SaysWhatItCannotDoBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const std::string run = folder.path() + "/run";
  for (const Status& status : Train(ConfigIn(run, {"device=cuda", "trainer.micro_batches=2"}))) {
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  }
  EXPECT_FALSE(std::filesystem::exists(run));
}

}  // namespace
}  // namespace pulse
