// A training run with its arrays on a device (mocked, with emulated kernels) leaves what the same
// run on the CPU leaves: digests of theta, versions, final weights, and every byte of every delta.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "app/training.h"
#include "collective/in_process.h"
#include "collective/nccl/mocked_nccl.h"
#include "device/mocked_device.h"
#include "kernels/cuda/emulated_kernels.h"
#include "store/temporary_folder.h"
#include "tests/app/in_process_groups.h"
#include "trainer/synthetic.h"

namespace pulse {
namespace {

struct Outcome {
  std::map<uint64_t, std::string> theta, versions;  // by round
  std::map<std::string, Bytes> payloads;            // deltas and anchors, by number and name
  Bytes final_weights;
};

// What the ranks of each site share: their group on the host, and what their mocked NCCLs meet in.
class Sites {
 public:
  // site_of[r]: the site of rank r.
  explicit Sites(std::vector<size_t> site_of) : site_of_(std::move(site_of)) {
    for (size_t r = 0; r < site_of_.size(); ++r) {
      auto& fabric = fabrics_[site_of_[r]];
      if (fabric != nullptr) continue;
      fabric = std::make_shared<MockedFabric>();
      fabric->tamper = [this](int, int, Bytes& message) { bytes_ += message.size(); };
    }
  }

  std::shared_ptr<MockedFabric> FabricOf(size_t rank) { return fabrics_.at(site_of_[rank]); }
  uint64_t bytes() const { return bytes_; }  // that went over NCCL
  InProcessGroups& groups() { return groups_; }

 private:
  const std::vector<size_t> site_of_;
  std::map<size_t, std::shared_ptr<MockedFabric>> fabrics_;
  InProcessGroups groups_;
  std::atomic<uint64_t> bytes_ = 0;
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

  // The status of each of `ranks`. sites: where their NCCLs, mocked, meet.
  std::vector<Status> Train(const RunConfig& config, bool resume = false, size_t ranks = 2,
                            Sites* sites = nullptr) {
    auto group = MakeInProcessGroup(static_cast<int>(ranks)).value();
    std::vector<Status> results(ranks);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r, communicator = std::move(group[r])] {
        MockedDevice device;
        if (r == full_rank_) device.FailCall(0, 2);  // cudaErrorMemoryAllocation
        std::optional<MockedNccl> nccl;
        {
          const std::atomic<bool> never = false;
          const Console console = {.progress = ShowProgress::kNever, .clock = &clock_};
          TrainingDeps deps{*communicator, {}, *fs_, clock_, console, never, resume};
          deps.open_cuda = [&](uint64_t) {
            return Cuda{device.Table(), kernels::EmulatedKernels(device)};
          };
          if (sites != nullptr) {
            deps.open_group = [&](const std::vector<int>& members) {
              return sites->groups().Open(static_cast<int>(r), members);
            };
            deps.load_nccl = [&]() -> StatusOr<NcclTable> {
              if (without_nccl_) return Unimplemented("no NCCL");
              return nccl.emplace(sites->FabricOf(r), device).Table();
            };
          }
          results[r] = RunTraining(config, deps);
        }
        if (nccl) {
          EXPECT_EQ(nccl->live(), 0);
          EXPECT_TRUE(nccl->violations().empty()) << nccl->violations().front();
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
  bool without_nccl_ = false;
  std::optional<size_t> full_rank_;  // whose card has no room
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

// Two sites of two trainers, NCCL (mocked) inside them.
TEST_F(TrainingOnADevice, LeavesTheSameWithNcclInsideSites) {
  const std::vector<std::string> sites = {"loco.sites=[0, 0, 1, 1]",
                                          "loco.exchange=sparse-all-gather"};
  const TemporaryFolder cpu, device;
  for (const Status& status : Train(ConfigIn(cpu.path() + "/run", sites), false, 4)) {
    ASSERT_EQ(status, OkStatus());
  }
  Sites meeting({0, 0, 1, 1});
  std::vector<std::string> overrides = sites;
  overrides.insert(overrides.end(), {"device=cuda", "loco.inside_sites=nccl"});
  for (const Status& status :
       Train(ConfigIn(device.path() + "/run", overrides), false, 4, &meeting)) {
    ASSERT_EQ(status, OkStatus());
  }
  const Outcome expected = Read(cpu.path() + "/run");
  EXPECT_EQ(expected.theta.size(), 4u);
  ExpectSame(Read(device.path() + "/run"), expected);
  EXPECT_GT(meeting.bytes(), 10'000u) << "updates went over NCCL";
}

TEST_F(TrainingOnADevice, EndsWhereNcclIsNotThere) {
  const TemporaryFolder folder;
  Sites meeting({0, 0});
  const RunConfig config =
      ConfigIn(folder.path() + "/run", {"device=cuda", "loco.inside_sites=nccl"});
  without_nccl_ = true;
  for (const Status& status : Train(config, false, 2, &meeting)) {
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/run"));
}

TEST_F(TrainingOnADevice, EndsWhereSitesAreOfOtherTrainers) {
  const TemporaryFolder folder;
  Sites meeting({0, 0, 0});
  const RunConfig config = ConfigIn(folder.path() + "/run",
                                    {"device=cuda", "loco.inside_sites=nccl", "loco.sites=[0, 0]"});
  for (const Status& status : Train(config, false, 3, &meeting)) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

// A version is published by both ranks of the first trainer.
TEST_F(TrainingOnADevice, LeavesTheSameWhereRanksShareATrainer) {
  for (const char* mode : {"pulseloco", "diloco", "ddp"}) {
    SCOPED_TRACE(mode);
    const std::vector<std::string> shared = {std::string("loco.mode=") + mode,
                                             "loco.ranks_per_trainer=2", "trainer.micro_batches=2",
                                             "publish.every=2"};
    const TemporaryFolder cpu, device;
    Sites cpu_groups({0, 0, 0, 0}), device_groups({0, 0, 0, 0});
    for (const Status& status :
         Train(ConfigIn(cpu.path() + "/run", shared), false, 4, &cpu_groups)) {
      ASSERT_EQ(status, OkStatus());
    }
    std::vector<std::string> overrides = shared;
    overrides.push_back("device=cuda");
    for (const Status& status :
         Train(ConfigIn(device.path() + "/run", overrides), false, 4, &device_groups)) {
      ASSERT_EQ(status, OkStatus());
    }
    const Outcome expected = Read(cpu.path() + "/run");
    EXPECT_EQ(expected.theta.size(), 4u);
    EXPECT_EQ(expected.versions.size(), 3u);
    ExpectSame(Read(device.path() + "/run"), expected);
  }
}

// Those that hold the same shard share an NCCL inside their site: four of two ranks each.
TEST_F(TrainingOnADevice, LeavesTheSameWithNcclInsideSitesOfSharedTrainers) {
  const std::vector<std::string> sites = {"loco.sites=[0, 0, 1, 1]", "loco.ranks_per_trainer=2",
                                          "trainer.micro_batches=2",
                                          "loco.exchange=sparse-all-gather"};
  const TemporaryFolder cpu, device;
  const std::vector<size_t> meeting_of = {0, 1, 0, 1, 2, 3, 2, 3};
  Sites cpu_groups(meeting_of), meeting(meeting_of);
  for (const Status& status : Train(ConfigIn(cpu.path() + "/run", sites), false, 8, &cpu_groups)) {
    ASSERT_EQ(status, OkStatus());
  }
  std::vector<std::string> overrides = sites;
  overrides.insert(overrides.end(), {"device=cuda", "loco.inside_sites=nccl"});
  for (const Status& status :
       Train(ConfigIn(device.path() + "/run", overrides), false, 8, &meeting)) {
    ASSERT_EQ(status, OkStatus());
  }
  ExpectSame(Read(device.path() + "/run"), Read(cpu.path() + "/run"));
  EXPECT_GT(meeting.bytes(), 10'000u) << "updates went over NCCL";
}

TEST_F(TrainingOnADevice, EndsWhereACardHasNoRoomBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const std::string run = folder.path() + "/run";
  full_rank_ = 1;
  for (const Status& status : Train(ConfigIn(run, {"device=cuda"}))) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_FALSE(std::filesystem::exists(run));
}

}  // namespace
}  // namespace pulse
