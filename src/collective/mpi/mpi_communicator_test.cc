#include "collective/mpi/mpi_communicator.h"

#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/mpi/mpi_test_main.h"

namespace pulse {
namespace {

StatusOr<std::unique_ptr<Communicator>> Open(const MpiOptions& options) {
  const RealClock clock;  // the deadline is used up in this call
  return OpenMpiCommunicator(MpiTestSession(), options, Deadline::After(clock, 30'000));
}

ConformanceBackend Processes() {
  return {"Processes",
          [](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            auto comm = Open({limits.chunk_bytes, limits.max_message_bytes});
            ASSERT_TRUE(comm.ok()) << comm.status();
            body(**comm);
          }};
}

// Every other rank of the job, counted backwards: the even ones beside the odd ones.
ConformanceBackend Groups() {
  return {"Groups",
          [](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            const RealClock clock;
            std::vector<int> members;
            for (int r = MpiTestSession().size() - 1; r >= 0; --r) {
              if (r % 2 == MpiTestSession().rank() % 2) members.push_back(r);
            }
            auto comm = OpenMpiGroup(MpiTestSession(), members,
                                     {limits.chunk_bytes, limits.max_message_bytes},
                                     Deadline::After(clock, 30'000));
            ASSERT_TRUE(comm.ok()) << comm.status();
            body(**comm);
          }};
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::Values(Processes(), Groups()),
                         [](const auto& param) { return param.param.name; });

TEST(MpiSession, CannotBeStartedTwice) {
  RealClock clock;
  EXPECT_TRUE(absl::IsFailedPrecondition(MpiSession::Start(clock).status()));
}

// As a rank does that publishes with its trainer's others while it tells all that it is busy.
TEST(MpiCommunicator, TwoThreadsOfAProcessWaitOnCommunicatorsOfTheirOwn) {
  const auto first = Open({.chunk_bytes = 1000}), second = Open({.chunk_bytes = 1000});
  ASSERT_TRUE(first.ok() && second.ok());
  const RealClock clock;
  const auto talk = [&clock](Communicator& communicator, uint8_t word) {
    Status status;
    for (int i = 0; i < 200 && status.ok(); ++i) {
      const Bytes mine(5000, static_cast<uint8_t>(word + communicator.rank()));
      std::vector<Bytes> all;
      status = communicator.AllGather(mine, all, Deadline::After(clock, 30'000));
      for (size_t r = 0; status.ok() && r < all.size(); ++r) {
        if (all[r] != Bytes(5000, static_cast<uint8_t>(word + r))) status = DataLoss("other bytes");
      }
    }
    return status;
  };
  Status beside;
  std::thread thread([&] { beside = talk(**second, 100); });
  EXPECT_EQ(talk(**first, 0), OkStatus());
  thread.join();
  EXPECT_EQ(beside, OkStatus());
}

TEST(MpiCommunicator, RefusesAChunkSizeThatMpiCannotCount) {
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.chunk_bytes = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.chunk_bytes = (uint64_t{1} << 30) + 1}).status()));
}

TEST(MpiCommunicator, RefusesAGroupThatCannotBe) {
  const int me = MpiTestSession().rank();
  const RealClock clock;
  const auto open = [&](const std::vector<int>& members) {
    return OpenMpiGroup(MpiTestSession(), members, {}, Deadline::After(clock, 30'000)).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(open({})));
  EXPECT_TRUE(absl::IsInvalidArgument(open({me, me})));
  EXPECT_TRUE(absl::IsInvalidArgument(open({me, MpiTestSession().size()})));
  EXPECT_TRUE(absl::IsInvalidArgument(open({me, -1})));
  EXPECT_TRUE(absl::IsInvalidArgument(open({(me + 1) % MpiTestSession().size() + 100})));
}

}  // namespace
}  // namespace pulse
