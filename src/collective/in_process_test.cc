#include "collective/in_process.h"

#include <thread>

#include "collective/communicator_conformance.h"

namespace pulse {
namespace {

void RunOnThreads(std::vector<std::unique_ptr<Communicator>>& group,
                  const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& comm : group) threads.emplace_back([&body, &comm] { body(*comm); });
  for (std::thread& thread : threads) thread.join();
}

ConformanceBackend Threads(int size) {
  return {"Threads" + std::to_string(size),
          [size](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            auto group = MakeInProcessGroup(size, {.max_message_bytes = limits.max_message_bytes});
            ASSERT_TRUE(group.ok()) << group.status();
            RunOnThreads(*group, body);
          }};
}

INSTANTIATE_TEST_SUITE_P(InProcess, CommunicatorConformance,
                         testing::Values(Threads(1), Threads(2), Threads(3), Threads(4), Threads(8),
                                         Threads(64)),
                         [](const auto& param) { return param.param.name; });

TEST(InProcess, AnExpiredDeadlineNamesExactlyTheRankThatIsMissing) {
  VirtualClock clock;
  auto group = MakeInProcessGroup(2, {.hosts = {"ant", "bee"}}).value();
  const Deadline passed = Deadline::After(clock, 0);
  EXPECT_EQ(group[0]->Barrier(passed),
            DeadlineExceeded("barrier 0: no data from rank 1 (bee) within 0.0 s"));
  // The one who comes late learns what happened instead of waiting for the others.
  EXPECT_TRUE(absl::IsDeadlineExceeded(group[1]->Barrier(Deadline::Never())));
}

TEST(InProcess, ARankThatLeftIsNotWaitedFor) {
  auto group = MakeInProcessGroup(3).value();
  std::thread waiting([&] {
    EXPECT_EQ(group[0]->Barrier(Deadline::Never()),
              Unavailable("rank 2 (localhost) has left the group"));
  });
  group[2].reset();
  EXPECT_TRUE(absl::IsUnavailable(group[1]->Barrier(Deadline::Never())));
  waiting.join();
}

TEST(InProcess, RanksThatFinishEarlyDoNotSpoilTheLastCall) {
  auto group = MakeInProcessGroup(8).value();
  std::vector<std::thread> threads;
  for (auto& comm : group) {
    threads.emplace_back([&comm] {
      EXPECT_TRUE(comm->Barrier(Deadline::Never()).ok());
      comm.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(InProcess, RefusesAGroupThatCannotBe) {
  EXPECT_TRUE(absl::IsInvalidArgument(MakeInProcessGroup(0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeInProcessGroup(2, {.hosts = {"ant"}}).status()));
}

}  // namespace
}  // namespace pulse
