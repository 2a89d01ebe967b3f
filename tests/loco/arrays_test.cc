// The loop's arrays in host memory, and on a mocked device whose kernels are the device's bodies
// run on the host; on CUDA: tests/gpu/arrays_gpu_test.cc.
#include <atomic>
#include <thread>

#include "tests/loco/arrays_conformance.h"
#include "tests/loco/device_world.h"

namespace pulse::loco {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Places, ArraysConformance,
    testing::Values(ArraysPlace{"Host", [](int, Trainer&) { return MakeArrays(HostArrays::Make); }},
                    ArraysPlace{"EmulatedDevice", EmulatedArrays}),
    [](const auto& param) { return param.param.name; });

TEST(DeviceArrays, BringOverTheBusNoMoreThanEncodedUpdatesCountsAndDigests) {
  Job job;
  job.synthetic.tensors = LlmLikeTensors(2'000'000);
  job.options.rounds = 4;
  job.options.local_steps = 2;
  job.options.exchange = ExchangeKind::kSparseAllGather;
  DeviceArrays* arrays = nullptr;
  uint64_t down_at_start = 0, up_at_start = 0;
  job.arrays = [&](int rank, Trainer& trainer) -> MakeArrays {
    return [&, make = EmulatedArrays(rank, trainer)](const ArraysParts& parts) {
      auto made = make(parts);
      if (made.ok()) arrays = dynamic_cast<DeviceArrays*>(made->get());
      return made;
    };
  };
  uint64_t payload = 0;
  job.observe = [&](int, const State& state, const RoundReport* report) {
    // What was moved so far, without the theta that this observer asked for.
    const uint64_t theta = state.round * state.theta.size() * sizeof(float);
    if (report == nullptr) {
      down_at_start = arrays->bytes_down();
      up_at_start = arrays->bytes_up();
      return OkStatus();
    }
    payload += report->traffic.contribution;
    const uint64_t rounds = state.round;
    // The digest's chunks and at most 240 bytes of each of theta's and b's tensors, and block by
    // block some numbers.
    const uint64_t tensors = 2 * LlmLikeTensors(2'000'000).size();
    const uint64_t small = rounds * (tensors * 512 + 4096);
    EXPECT_LE(arrays->bytes_down() - down_at_start - theta, payload + small);
    EXPECT_LE(arrays->bytes_up() - up_at_start, payload + rounds * 4096);
    return OkStatus();
  };
  RunJobOrFail(job);
  EXPECT_GT(payload, 0u);
}

TEST(DeviceArrays, RefuseToShareATrainerOfWholeGradients) {
  Job job;
  job.ranks = 2;
  job.synthetic.tensors = SmallTensors();
  job.synthetic.computes_ranges = false;
  job.arrays = EmulatedArrays;
  job.options.micro_batches = 2;
  job.options.ranks_per_trainer = 2;
  for (const RankResult& result : RunJob(job)) {
    EXPECT_TRUE(absl::IsUnimplemented(result.status)) << result.status;
  }
}

// What fails on one rank of a trainer ends the others at once, whatever they wait for.
TEST(DeviceArrays, TellWhoSharesTheTrainerOfEveryFailure) {
  for (const Mode mode : {Mode::kPulseLoco, Mode::kDdp}) {
    std::atomic<bool> failed = true;
    for (uint64_t call = 0; failed; call += 1 + call / 8) {
      Job job;
      job.ranks = 2;
      job.synthetic.tensors = SmallTensors();
      job.options.mode = mode;
      job.options.rounds = 1;
      job.options.local_steps = 2;
      job.options.micro_batches = 2;
      job.options.ranks_per_trainer = 2;
      job.options.deadline_ms = 20'000;
      failed = false;
      job.arrays = [&](int rank, Trainer& trainer) -> MakeArrays {
        const auto world = std::make_shared<EmulatedRank>(trainer, false);
        if (rank == 1) world->device.FailCall(call, 719);  // cudaErrorLaunchFailure
        return [world](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
          return DeviceArrays::Make(parts,
                                    {world->driver, world->kernels, world->trainer, world->clock});
        };
      };
      const std::vector<RankResult> results = RunJob(job);
      failed = !results[1].status.ok();
      const bool in_the_round = failed && results[1].reports.empty();
      EXPECT_FALSE(in_the_round && results[0].status.ok()) << "call " << call;
      EXPECT_FALSE(absl::IsDeadlineExceeded(results[0].status)) << results[0].status;
    }
  }
}

// Blocks until it is so; false where it isn't within a time that only a failing test takes.
bool Until(const std::function<bool()>& is_so) {
  const RealClock clock;
  for (const Deadline deadline = Deadline::After(clock, 20'000); !deadline.Expired();) {
    if (is_so()) return true;
    std::this_thread::yield();
  }
  return false;
}

// Calls `before` at the beginning of every all-gather.
class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner,
                      std::function<void(ByteView mine)> before)
      : inner_(std::move(inner)), before_(std::move(before)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& HostOf(int rank) const override { return inner_->HostOf(rank); }
  uint64_t BytesReceived() const override { return inner_->BytesReceived(); }
  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    before_(mine);
    return inner_->AllGather(mine, all, deadline);
  }
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    return inner_->AllToAll(to, from, deadline);
  }
  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    return inner_->Broadcast(root, data, deadline);
  }
  Status Barrier(Deadline deadline) override { return inner_->Barrier(deadline); }

 private:
  std::unique_ptr<Communicator> inner_;
  std::function<void(ByteView)> before_;
};

// Three segments: the transfer of each waits for the next one's encoding, and the decoding of each
// for the next one's transfer.
TEST(DeviceArrays, EncodeTheNextSegmentAndDecodeTheLastWhileOneIsOnItsWay) {
  constexpr int kSegments = 3;
  std::atomic<int> encoded = 0, sent = 0, decoded = 0;
  Job job;
  job.synthetic.tensors = LlmLikeTensors(2'200'000);
  job.options.rounds = 1;
  job.options.local_steps = 1;
  job.options.gate_open = true;  // enough entries to be cut into segments, each a block
  job.options.exchange = ExchangeKind::kSparseAllGather;
  job.wrap = [&](int, std::unique_ptr<Communicator> inner) {
    return std::make_unique<WatchedCommunicator>(std::move(inner), [&](ByteView mine) {
      constexpr size_t kSmallestUpdate = 10'000;  // what else is gathered is smaller
      if (mine.size() < kSmallestUpdate) return;
      const int next = std::min(++sent + 1, kSegments);
      EXPECT_TRUE(Until([&] { return encoded >= next; }));
    });
  };
  job.arrays = [&](int, Trainer& trainer) -> MakeArrays {
    const auto world = std::make_shared<EmulatedRank>(trainer, false);
    world->kernels.sparse_small_encode = [&, encode = world->kernels.sparse_small_encode](
                                             const kernels::SparseSmallEncodeOp& op, auto... rest) {
      if (op.out != nullptr) ++encoded;
      return encode(op, rest...);
    };
    world->kernels.sparse_small_decode = [&, decode = world->kernels.sparse_small_decode](
                                             const auto& op, auto... rest) {
      const int next = std::min(++decoded + 1, kSegments);
      EXPECT_TRUE(Until([&] { return sent >= next; }));
      return decode(op, rest...);
    };
    return [world](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
      return DeviceArrays::Make(parts,
                                {world->driver, world->kernels, world->trainer, world->clock});
    };
  };
  RunJobOrFail(job);
  EXPECT_EQ(sent, kSegments);
  EXPECT_EQ(decoded, kSegments);
}

// Every failing call of the device ends the run with an error, and nothing stays behind.
TEST(DeviceArrays, ReportTheFailureOfEveryCall) {
  uint64_t calls = 0;
  for (uint64_t call = 0;; call += 1 + call / 16) {
    std::shared_ptr<EmulatedRank> world;
    Job job;
    job.synthetic.tensors = SmallTensors();
    job.options.rounds = 2;
    job.options.local_steps = 1;
    job.options.exchange = ExchangeKind::kSparseAllGather;
    job.arrays = [&](int, Trainer& trainer) -> MakeArrays {
      world = std::make_shared<EmulatedRank>(trainer, false);
      world->device.FailCall(call, 719);  // cudaErrorLaunchFailure
      return [world](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
        return DeviceArrays::Make(parts,
                                  {world->driver, world->kernels, world->trainer, world->clock},
                                  {.staging = {.slots = 2, .slot_bytes = 10'000}});
      };
    };
    const RankResult result = std::move(RunJob(job)[0]);
    EXPECT_EQ(world->device.live(), 0u) << "call " << call;
    EXPECT_THAT(world->device.violations(), testing::IsEmpty()) << "call " << call;
    if (!world->device.failed_a_call()) {
      EXPECT_EQ(result.status, OkStatus());
      break;
    }
    EXPECT_FALSE(result.status.ok()) << "call " << call;
    ++calls;
  }
  EXPECT_GT(calls, 40u) << "the scenario makes calls that can fail";
}

}  // namespace
}  // namespace pulse::loco
