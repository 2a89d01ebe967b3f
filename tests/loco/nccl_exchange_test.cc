// Jobs whose exchanges go over a mocked NCCL inside sites and over the host across: they end with
// the bits, and tell of the traffic, of the same jobs in host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "collective/nccl/mocked_nccl.h"
#include "collective/nccl/nccl_communicator.h"
#include "collective/split.h"
#include "core/digest.h"
#include "loco/device/device_seals.h"
#include "tests/loco/device_world.h"

namespace pulse::loco {
namespace {

// What the ranks of one site share.
struct Site {
  std::shared_ptr<MockedFabric> fabric = std::make_shared<MockedFabric>();
  std::vector<int> members;
};

// A rank with its device and its NCCL.
class NcclRank {
 public:
  NcclRank(Trainer& trainer, const Site& site, int rank)
      : world_(trainer, rank % 2 == 1), nccl_(site.fabric, world_.device) {}
  ~NcclRank() {
    exchange_.reset();
    EXPECT_THAT(world_.device.violations(), testing::IsEmpty());
    EXPECT_THAT(nccl_.violations(), testing::IsEmpty());
    EXPECT_EQ(world_.device.live(), 0u);
  }

  Communicator* Open(const Site& site, Communicator& all) {
    NcclOptions options;
    options.chunk_bytes = 100'000;
    for (const int member : site.members) {
      if (member == all.rank()) options.rank = static_cast<int>(options.hosts.size());
      options.hosts.push_back(all.HostOf(member));
    }
    auto inside = OpenNcclCommunicator(world_.driver, table_, world_.clock, options,
                                       Deadline::After(world_.clock, 30'000));
    auto work = DeviceWork::Open(world_.driver, world_.clock, {.slots = 2, .slot_bytes = 10'000});
    exchange_ =
        OpenDeviceSplit(*std::move(inside), all, *std::move(work), {.members = site.members})
            .value();
    return exchange_.get();
  }
  StatusOr<std::unique_ptr<DeviceArrays>> Arrays(const ArraysParts& parts) {
    return DeviceArrays::Make(
        parts, {world_.driver, world_.kernels, world_.trainer, world_.clock, exchange_.get()},
        {.staging = {.slots = 2, .slot_bytes = 10'000}, .gate_blocks = 1});
  }

 private:
  EmulatedRank world_;
  MockedNccl nccl_;
  NcclTable table_ = nccl_.Table();
  std::unique_ptr<DeviceCommunicator> exchange_;
};

// One run of a job over sites.
class NcclJob {
 public:
  // ranks_on_device: the others keep their arrays on the host.
  NcclJob(Job job, int ranks_on_device) : job_(std::move(job)) {
    sites_.resize(GroupBySite(job_.options.sites, static_cast<uint32_t>(job_.ranks)).size());
    for (int r = 0; r < job_.ranks; ++r) SiteOf(r).members.push_back(r);
    ranks_.resize(static_cast<size_t>(job_.ranks));
    job_.arrays = [this, ranks_on_device](int rank, Trainer& trainer) -> MakeArrays {
      const auto world = std::make_shared<NcclRank>(trainer, SiteOf(rank), rank);
      ranks_[static_cast<size_t>(rank)] = world;
      if (rank >= ranks_on_device) {
        return [world](const ArraysParts& parts) { return HostArrays::Make(parts); };
      }
      return [this, rank, world](const ArraysParts& parts) -> StatusOr<std::unique_ptr<Arrays>> {
        PULSE_ASSIGN_OR_RETURN(auto arrays, world->Arrays(parts));
        if (rank == 0) first_ = arrays.get();
        return std::unique_ptr<Arrays>(std::move(arrays));
      };
    };
    job_.peers = [this](int rank, Communicator& all) {
      return ranks_[static_cast<size_t>(rank)].lock()->Open(SiteOf(rank), all);
    };
  }

  Site& SiteOf(int rank) {
    return sites_[job_.options.sites.empty() ? 0 : job_.options.sites[static_cast<size_t>(rank)]];
  }
  Job& job() { return job_; }
  DeviceArrays& first() { return *first_; }  // rank 0's
  std::vector<RankResult> Run() { return RunJob(job_); }

 private:
  Job job_;
  std::vector<Site> sites_;
  std::vector<std::weak_ptr<NcclRank>> ranks_;
  DeviceArrays* first_ = nullptr;
};

Job SmallJob(int ranks, std::vector<uint32_t> sites) {
  Job job;
  job.ranks = ranks;
  job.synthetic.tensors = SmallTensors();
  job.options.rounds = 3;
  job.options.local_steps = 2;
  job.options.inner.learning_rate = 1e-4;
  job.options.exchange = ExchangeKind::kSparseAllGather;
  job.options.sites = std::move(sites);
  return job;
}

void Check(const Job& job, int ranks_on_device) {
  const std::vector<RankResult> expected = RunJob(job);
  const std::vector<RankResult> results = NcclJob(job, ranks_on_device).Run();
  for (size_t r = 0; r < results.size(); ++r) {
    SCOPED_TRACE(testing::Message() << "rank " << r);
    ExpectSame(results[r], expected[r]);
  }
}

TEST(NcclExchange, GivesTheBitsAndTheTrafficOfTheHost) {
  for (const UpdateCodecName codec : {UpdateCodecName::kSmall, UpdateCodecName::kFast}) {
    for (const std::vector<uint32_t>& sites :
         {std::vector<uint32_t>{}, std::vector<uint32_t>{0, 1, 0, 1}}) {
      for (const int on_device : {4, 3}) {
        Job job = SmallJob(4, sites);
        job.options.codec = codec;
        Check(job, on_device);
      }
    }
  }
}

TEST(NcclExchange, DroppedTrainersSendNothing) {
  Job job = SmallJob(4, {0, 0, 1, 1});
  job.synthetic.non_finite = {{.trainer = 1, .step = 2}, {.trainer = 2, .step = 5}};
  Check(job, 4);
}

TEST(NcclExchange, OtherExchangesGoOverTheHost) {
  for (const ExchangeKind kind : {ExchangeKind::kOwnerPartitioned, ExchangeKind::kDense}) {
    Job job = SmallJob(3, {0, 0, 1});
    job.options.exchange = kind;
    Check(job, 3);
  }
}

TEST(NcclExchange, ArraysOfSeveralBlocksInSegments) {
  Job job = SmallJob(2, {});
  job.synthetic.tensors = LlmLikeTensors(2'200'000);
  job.options.rounds = 1;
  job.options.gate_open = true;  // enough entries to be cut into segments, each a block
  Check(job, 2);
}

TEST(NcclExchange, BringsNoUpdateOverTheBusInsideASite) {
  Job job = SmallJob(2, {});
  job.synthetic.tensors = LlmLikeTensors(200'000);
  job.options.inner.learning_rate = 3e-4;
  NcclJob nccl(std::move(job), 2);
  uint64_t payload = 0, down_at_start = 0, up_at_start = 0;
  nccl.job().observe = [&](int rank, const State& state, const RoundReport* report) {
    if (rank != 0) return OkStatus();
    const uint64_t theta = state.round * state.theta.size() * sizeof(float);  // for this observer
    if (report == nullptr) {
      down_at_start = nccl.first().bytes_down();
      up_at_start = nccl.first().bytes_up();
      return OkStatus();
    }
    payload += report->traffic.contribution;
    const uint64_t tensors = 2 * LlmLikeTensors(200'000).size();
    EXPECT_LE(nccl.first().bytes_down() - down_at_start - theta,
              state.round * (tensors * 512 + 4096));
    EXPECT_LE(nccl.first().bytes_up() - up_at_start, state.round * 4096);
    return OkStatus();
  };
  for (const RankResult& result : nccl.Run()) EXPECT_EQ(result.status, OkStatus());
  EXPECT_GT(payload, 200'000u);
}

TEST(NcclExchange, AMessageThatArrivesDamagedIsFoundAndItsSenderNamed) {
  NcclJob job(SmallJob(2, {}), 2);
  std::atomic<bool> damaged = false;
  job.SiteOf(0).fabric->tamper = [&](int from, int, Bytes& message) {
    constexpr size_t kMoreThanAHeader = 200;
    if (from != 0 || message.size() < kMoreThanAHeader || damaged.exchange(true)) return;
    message[message.size() / 2] ^= 0x10;
  };
  const std::vector<RankResult> results = job.Run();
  EXPECT_TRUE(damaged);
  EXPECT_EQ(results[1].status.code(), absl::StatusCode::kDataLoss) << results[1].status;
  EXPECT_THAT(std::string(results[1].status.message()),
              testing::HasSubstr("update of trainer 0: what rank 0 (localhost) sent to rank 1"));
  EXPECT_FALSE(results[0].status.ok());
}

TEST(DeviceSeals, AreThoseOfTheHost) {
  MockedDevice device;
  {
    const DeviceDriver driver = device.Table();
    const kernels::DeviceKernels kernels = kernels::EmulatedKernels(device);
    RealClock clock;
    DeviceWork work = DeviceWork::Open(driver, clock).value();
    DeviceSeals seals(work, kernels);
    for (const uint64_t bytes : {0u, 1u, 1000u, 1u << 20, (3u << 20) + 5}) {
      Bytes message(bytes);
      for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<uint8_t>(i * 7 + i / 99);
      DeviceRoom room;
      const auto sealed = room.Get<uint8_t>(driver, bytes + sizeof(Digest)).value();
      ASSERT_EQ(work.Up(std::span<const uint8_t>(message), sealed.first(bytes), Deadline::Never()),
                OkStatus());
      ASSERT_EQ(seals.Seal(sealed, Deadline::Never()), OkStatus());
      Digest seal;
      ASSERT_EQ(work.Down<uint8_t>(sealed.subspan(bytes, sizeof(seal)), std::span(seal.bytes),
                                   Deadline::Never()),
                OkStatus());
      EXPECT_EQ(seal, TensorDigest(message));
      const auto opened = seals.Open(sealed, Deadline::Never());
      ASSERT_TRUE(opened.ok() && opened->has_value()) << bytes;
      EXPECT_EQ((*opened)->size, bytes);
      const auto damaged = sealed.subspan(bytes / 2, 1);
      ASSERT_EQ(work.Down<uint8_t>(damaged, std::span(seal.bytes).first(1), Deadline::Never()),
                OkStatus());
      seal.bytes[0] ^= 4;
      ASSERT_EQ(work.Up(std::span<const uint8_t>(seal.bytes).first(1), damaged, Deadline::Never()),
                OkStatus());
      EXPECT_FALSE(seals.Open(sealed, Deadline::Never()).value().has_value()) << bytes;
      EXPECT_FALSE(seals.Open(sealed.first(15), Deadline::Never()).value().has_value());
    }
  }
  EXPECT_THAT(device.violations(), testing::IsEmpty());
  EXPECT_EQ(device.live(), 0u);
}

}  // namespace
}  // namespace pulse::loco
