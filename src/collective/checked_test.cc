#include "collective/checked.h"

#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/fault_injecting.h"
#include "collective/in_process.h"

namespace pulse {
namespace {

ConformanceBackend Checked(int size) {
  return {"CheckedThreads" + std::to_string(size),
          [size](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            auto group = MakeInProcessGroup(
                size,
                {.max_message_bytes = limits.max_message_bytes + CheckedCommunicator::kSealBytes});
            ASSERT_TRUE(group.ok()) << group.status();
            std::vector<std::thread> threads;
            for (auto& inner : *group) {
              threads.emplace_back([&body, &inner] {
                CheckedCommunicator checked(*inner);
                body(checked);
              });
            }
            for (std::thread& thread : threads) thread.join();
          },
          CheckedCommunicator::kSealBytes};
}

INSTANTIATE_TEST_SUITE_P(Checked, CommunicatorConformance, testing::Values(Checked(1), Checked(3)),
                         [](const auto& param) { return param.param.name; });

// Runs `call` on three ranks, with one bit of what rank 1 receives inverted; returns what each got.
std::vector<Status> WithAFlippedBit(uint64_t bit,
                                    const std::function<Status(Communicator&)>& call) {
  VirtualClock clock;
  auto group = MakeInProcessGroup(3, {.hosts = {"ant", "bee", "cow"}}).value();
  group[1] = std::make_unique<FaultInjectingCommunicator>(
      std::move(group[1]),
      CommunicatorFaultPlan{{.action = CommunicatorFault::Action::kFlipBit, .bit = bit}}, clock);
  std::vector<Status> results(3);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      CheckedCommunicator checked(*group[r]);
      results[r] = call(checked);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Of messages of 5 bytes and their seals, rank 1 receives those of ranks 0 and 2.
constexpr uint64_t kMessageBits = (5 + CheckedCommunicator::kSealBytes) * 8;

void ExpectOnlyRankOneFails(const std::vector<Status>& results, std::string_view sender) {
  EXPECT_TRUE(results[0].ok() && results[2].ok());
  EXPECT_EQ(results[1].code(), absl::StatusCode::kDataLoss) << results[1];
  EXPECT_THAT(Message(results[1]), testing::HasSubstr(fmt::format(
                                       "what {} sent to rank 1 (bee) arrived damaged", sender)));
}

TEST(Checked, AFlippedBitOfAnAllGatherIsFoundAndItsSenderNamed) {
  for (uint64_t bit = 0; bit < 2 * kMessageBits; bit += 5) {
    const auto results = WithAFlippedBit(bit, [](Communicator& comm) {
      std::vector<Bytes> all = {{7}};
      const Status status = comm.AllGather(Payload(5, comm.rank()), all, Deadline::Never());
      if (!status.ok()) {
        EXPECT_EQ(all, std::vector<Bytes>{{7}});
        EXPECT_EQ(comm.Barrier(Deadline::Never()), status);  // broken, without a word to the others
      }
      return status;
    });
    ExpectOnlyRankOneFails(results, bit < kMessageBits ? "rank 0 (ant)" : "rank 2 (cow)");
  }
}

TEST(Checked, AFlippedBitOfAnAllToAllIsFoundAndItsSenderNamed) {
  for (uint64_t bit = 0; bit < 2 * kMessageBits; bit += 5) {
    const auto results = WithAFlippedBit(bit, [](Communicator& comm) {
      const Bytes message = Payload(5, comm.rank());
      const std::vector<ByteView> to(3, message);
      std::vector<Bytes> from;
      return comm.AllToAll(to, from, Deadline::Never());
    });
    ExpectOnlyRankOneFails(results, bit < kMessageBits ? "rank 0 (ant)" : "rank 2 (cow)");
  }
}

TEST(Checked, AFlippedBitOfABroadcastIsFoundAndItsSenderNamed) {
  for (uint64_t bit = 0; bit < kMessageBits; bit += 5) {
    const auto results = WithAFlippedBit(bit, [](Communicator& comm) {
      Bytes data = Payload(5, comm.rank());
      return comm.Broadcast(2, data, Deadline::Never());
    });
    ExpectOnlyRankOneFails(results, "rank 2 (cow)");
  }
}

TEST(Checked, AMessageTooShortForASealIsDamaged) {
  auto group = MakeInProcessGroup(2).value();
  std::thread bare([&group] {
    std::vector<Bytes> all;
    EXPECT_TRUE(group[0]
                    ->AllGather(Bytes(CheckedCommunicator::kSealBytes - 1), all, Deadline::Never())
                    .ok());
  });
  CheckedCommunicator checked(*group[1]);
  std::vector<Bytes> all;
  EXPECT_TRUE(absl::IsDataLoss(checked.AllGather({}, all, Deadline::Never())));
  bare.join();
}

}  // namespace
}  // namespace pulse
