// The communicator over mocked tables of CUDA and NCCL: its protocol, its limits and every error
// path. What a device and NCCL itself do is for nccl_gpu_test.cc.
#include "collective/nccl/nccl_communicator.h"

#include <atomic>
#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/in_process.h"
#include "collective/nccl/device_messages.h"
#include "collective/nccl/mocked_nccl.h"

namespace pulse {
namespace {

std::vector<std::string> Hosts(int size) {
  std::vector<std::string> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back("host" + std::to_string(r));
  return hosts;
}

// A rank's thread: its own device and tables.
void RunRank(const std::shared_ptr<MockedFabric>& fabric, const NcclOptions& options,
             const std::function<void(Communicator&)>& body) {
  RealClock clock;
  MockedDevice device;
  MockedNccl nccl(fabric, device);
  const DeviceDriver driver = device.Table();
  const NcclTable table = nccl.Table();
  {
    auto comm = OpenNcclCommunicator(driver, table, clock, options, Deadline::After(clock, 30'000));
    ASSERT_TRUE(comm.ok()) << comm.status();
    body(**comm);
  }
  EXPECT_THAT(device.violations(), testing::IsEmpty());
  EXPECT_THAT(nccl.violations(), testing::IsEmpty());
  EXPECT_EQ(device.live(), 0u);
  EXPECT_EQ(nccl.live(), 0);
}

ConformanceBackend MockedDriverTable(int size) {
  return {"MockedDriverTable" + std::to_string(size),
          [size](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            const auto fabric = std::make_shared<MockedFabric>();
            std::vector<std::thread> threads;
            for (int rank = 0; rank < size; ++rank) {
              threads.emplace_back([&, rank] {
                NcclOptions options;
                options.rank = rank;
                options.hosts = Hosts(size);
                // Mocked device memory is filled when it is made; the default is 16 MiB a peer.
                options.chunk_bytes = std::min(limits.chunk_bytes, uint64_t{1} << 18);
                options.max_message_bytes = limits.max_message_bytes;
                RunRank(fabric, options, body);
              });
            }
            for (std::thread& thread : threads) thread.join();
          }};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance,
                         testing::Values(MockedDriverTable(1), MockedDriverTable(2),
                                         MockedDriverTable(3), MockedDriverTable(4)),
                         [](const auto& param) { return param.param.name; });

// The same suite over messages in device memory; and with ranks of both kinds.
void RunRankOnDevice(const std::shared_ptr<MockedFabric>& fabric, const NcclOptions& options,
                     const std::function<void(Communicator&)>& body) {
  RealClock clock;
  MockedDevice device;
  MockedNccl nccl(fabric, device);
  const DeviceDriver driver = device.Table();
  const NcclTable table = nccl.Table();
  {
    auto comm = OpenNcclCommunicator(driver, table, clock, options, Deadline::After(clock, 30'000));
    ASSERT_TRUE(comm.ok()) << comm.status();
    auto work = DeviceWork::Open(driver, clock, {.slots = 2, .slot_bytes = 1 << 16});
    ASSERT_TRUE(work.ok()) << work.status();
    DeviceMessages messages(**comm, *work);
    body(messages);
  }
  EXPECT_THAT(device.violations(), testing::IsEmpty());
  EXPECT_THAT(nccl.violations(), testing::IsEmpty());
  EXPECT_EQ(device.live(), 0u);
  EXPECT_EQ(nccl.live(), 0);
}

// on_host: every second rank has its messages on the host.
ConformanceBackend OnMockedDevices(int size, bool on_host) {
  return {(on_host ? "DeviceAndHostMemory" : "DeviceMemory") + std::to_string(size),
          [=](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            const auto fabric = std::make_shared<MockedFabric>();
            std::vector<std::thread> threads;
            for (int rank = 0; rank < size; ++rank) {
              threads.emplace_back([&, rank] {
                NcclOptions options;
                options.rank = rank;
                options.hosts = Hosts(size);
                options.chunk_bytes = std::min(limits.chunk_bytes, uint64_t{1} << 18);
                options.max_message_bytes = limits.max_message_bytes;
                if (on_host && rank % 2 == 1) return RunRank(fabric, options, body);
                RunRankOnDevice(fabric, options, body);
              });
            }
            for (std::thread& thread : threads) thread.join();
          }};
}

INSTANTIATE_TEST_SUITE_P(NcclOnDevice, CommunicatorConformance,
                         testing::Values(OnMockedDevices(1, false), OnMockedDevices(2, false),
                                         OnMockedDevices(3, false), OnMockedDevices(3, true)),
                         [](const auto& param) { return param.param.name; });

// Another communicator brings the id.
TEST(OpenNcclOver, BringsTheIdOfRank0AndTellsAllWhereThereIsNone) {
  for (const bool can_make : {true, false}) {
    const auto fabric = std::make_shared<MockedFabric>();
    auto group = MakeInProcessGroup(3).value();
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      threads.emplace_back([&, rank, bootstrap = std::move(group[rank])] {
        RealClock clock;
        MockedDevice device;
        MockedNccl nccl(fabric, device);
        const DeviceDriver driver = device.Table();
        NcclTable table = nccl.Table();
        table.make_id = [&](NcclId* id) {
          EXPECT_EQ(rank, 0u);
          id->fill(7);
          return can_make ? 0 : 3;
        };
        const auto init = table.init;
        table.init = [&, init](void** comm, int ranks, const NcclId& id, int r) {
          EXPECT_EQ(id[5], 7);
          return init(comm, ranks, id, r);
        };
        NcclOptions options;
        options.chunk_bytes = 64;
        auto comm =
            OpenNcclOver(*bootstrap, driver, table, clock, options, Deadline::After(clock, 30'000));
        EXPECT_EQ(comm.ok(), can_make) << comm.status();
        if (!comm.ok()) {
          EXPECT_TRUE(absl::IsUnavailable(comm.status())) << comm.status();
          return;
        }
        EXPECT_EQ((*comm)->rank(), static_cast<int>(rank));
        EXPECT_EQ((*comm)->Barrier(Deadline::After(clock, 30'000)), OkStatus());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// One rank of two, whose peer's messages are laid into its mailbox beforehand: one thread, a
// virtual clock, every call countable.
class OneOfTwo : public testing::Test {
 protected:
  OneOfTwo() : nccl_(fabric_, device_) { fabric_->Join(2, 1); }

  StatusOr<std::unique_ptr<DeviceCommunicator>> Open(int64_t timeout_ms = 1000) {
    NcclOptions options;
    options.hosts = {"ant", "bee"};
    options.chunk_bytes = 64;
    return OpenNcclCommunicator(driver_, table_, clock_, options,
                                Deadline::After(clock_, timeout_ms));
  }
  void PeerSends(CallHeader header, uint64_t bytes) {
    header.bytes = header.largest_bytes = bytes;
    const ByteView view = AsBytes(std::span<const CallHeader>(&header, 1));
    fabric_->Send(1, 0, Bytes(view.begin(), view.end()));
    for (uint64_t at = 0; at < bytes; at += 64) {
      fabric_->Send(1, 0, Payload(std::min<uint64_t>(64, bytes - at), 1));
    }
  }
  Deadline Soon() { return Deadline::After(clock_, 10); }

  VirtualClock clock_;
  MockedDevice device_;
  std::shared_ptr<MockedFabric> fabric_ = std::make_shared<MockedFabric>();
  MockedNccl nccl_;
  DeviceDriver driver_ = device_.Table();
  NcclTable table_ = nccl_.Table();
};

TEST_F(OneOfTwo, NamesTheRankWhoseHeaderIsNotThere) {
  auto comm = Open().value();
  EXPECT_EQ(comm->Barrier(Soon()),
            DeadlineExceeded("barrier 0: no data from rank 1 (bee) within 0.0 s"));
  EXPECT_EQ(nccl_.aborts(), 1) << "a kernel that waits for a peer ends by nothing else";
}

TEST_F(OneOfTwo, APeerThatStopsAmidAMessageEndsTheCallAtItsDeadline) {
  auto comm = Open().value();
  CallHeader header;
  header.operation = Operation::kAllGather;
  header.bytes = header.largest_bytes = 100;
  const ByteView view = AsBytes(std::span<const CallHeader>(&header, 1));
  fabric_->Send(1, 0, Bytes(view.begin(), view.end()));
  fabric_->Send(1, 0, Payload(64, 1));  // the first chunk of two
  std::vector<Bytes> all;
  EXPECT_TRUE(absl::IsDeadlineExceeded(comm->AllGather(Payload(5, 0), all, Soon())));
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(nccl_.aborts(), 1);
}

TEST_F(OneOfTwo, AnErrorThatNcclReportsLaterEndsTheWaitAtOnce) {
  auto comm = Open().value();
  nccl_.FailLater(6);  // ncclRemoteError
  const Status status = comm->Barrier(Deadline::Never());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(Message(status), testing::HasSubstr("barrier 0: "));
  EXPECT_THAT(Message(status), testing::HasSubstr("NCCL error 6"));
  EXPECT_EQ(comm->Barrier(Deadline::Never()), status);
  EXPECT_EQ(nccl_.aborts(), 1);
}

TEST_F(OneOfTwo, EveryFailingCallBecomesAnErrorAndLeavesNothingBehind) {
  for (uint64_t call = 0;; ++call) {
    SCOPED_TRACE(testing::Message() << "call " << call);
    MockedDevice device;
    auto fabric = std::make_shared<MockedFabric>();
    fabric->Join(2, 1);
    MockedNccl nccl(fabric, device);
    const DeviceDriver driver = device.Table();
    const NcclTable table = nccl.Table();
    device.FailCall(call, 999);  // neither CUDA's nor NCCL's code for a mistake of ours
    fabric_ = fabric;
    CallHeader header;
    header.operation = Operation::kAllGather;
    PeerSends(header, 150);
    const Status status = [&]() -> Status {
      NcclOptions options;
      options.hosts = {"ant", "bee"};
      options.chunk_bytes = 64;
      PULSE_ASSIGN_OR_RETURN(auto comm, OpenNcclCommunicator(driver, table, clock_, options,
                                                             Deadline::After(clock_, 1000)));
      std::vector<Bytes> all;
      const Status gathered = comm->AllGather(Payload(130, 0), all, Soon());
      EXPECT_EQ(gathered.ok(), !all.empty()) << "outputs are written only on success";
      return gathered;
    }();
    EXPECT_EQ(device.live(), 0u);
    EXPECT_EQ(nccl.live(), 0);
    EXPECT_THAT(device.violations(), testing::IsEmpty());
    EXPECT_THAT(nccl.violations(), testing::IsEmpty());
    if (!device.failed_a_call()) {
      EXPECT_EQ(status, OkStatus());
      EXPECT_GT(call, 60u) << "the scenario makes calls that can fail";
      break;
    }
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    } else {
      EXPECT_EQ(nccl.aborts(), 1) << "only finalize may fail unheard: it is followed by abort";
    }
  }
}

TEST_F(OneOfTwo, OpeningEndsWhenTheOtherNeverComes) {
  fabric_ = std::make_shared<MockedFabric>();
  MockedDevice device;
  MockedNccl nccl(fabric_, device);
  const DeviceDriver driver = device.Table();
  const NcclTable table = nccl.Table();
  NcclOptions options;
  options.hosts = {"ant", "bee"};
  options.chunk_bytes = 64;
  const Status status =
      OpenNcclCommunicator(driver, table, clock_, options, Deadline::After(clock_, 20)).status();
  EXPECT_EQ(status, DeadlineExceeded("some of 2 ranks did not open an NCCL communicator in time"));
  EXPECT_EQ(nccl.aborts(), 1);
  EXPECT_EQ(device.live(), 0u);
}

TEST_F(OneOfTwo, RefusesARankOrAChunkThatCannotBe) {
  NcclOptions options;
  options.hosts = {"ant", "bee"};
  options.rank = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(
      OpenNcclCommunicator(driver_, table_, clock_, options, Soon()).status()));
  options.rank = 0;
  options.chunk_bytes = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      OpenNcclCommunicator(driver_, table_, clock_, options, Soon()).status()));
}

}  // namespace
}  // namespace pulse
