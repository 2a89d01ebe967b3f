// What every communicator must do, as tests that each backend instantiates in a test program of its
// own. Written from one rank's point of view: every rank runs the same body.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"

namespace pulse {

struct ConformanceLimits {
  uint64_t chunk_bytes = uint64_t{1} << 26;  // backends without chunks ignore it
  uint64_t max_message_bytes = uint64_t{1} << 30;
};

// Runs the body on every rank of a fresh group (those that live in this process), then returns.
struct ConformanceBackend {
  std::string name;
  std::function<void(const ConformanceLimits&, const std::function<void(Communicator&)>&)> run;
  uint64_t framing_bytes = 0;  // what it adds to each message before the limit is checked
};

inline void PrintTo(const ConformanceBackend& backend, std::ostream* out) {
  *out << backend.name;
}

class CommunicatorConformance : public testing::TestWithParam<ConformanceBackend> {
 protected:
  using Body = std::function<void(Communicator&)>;

  void OnEveryRank(const Body& body) { GetParam().run({}, body); }
  void OnEveryRank(const ConformanceLimits& limits, const Body& body) {
    GetParam().run(limits, body);
  }

  // Far beyond what a loaded machine needs: ends a hung test, never decides one.
  Deadline Ample() const { return Deadline::After(clock_, 30'000); }
  // For calls that must time out. Nothing depends on whether the others arrive within it.
  Deadline Short() const { return Deadline::After(clock_, 700); }

  RealClock clock_;
};

// Bytes that tell sender, receiver and round apart.
inline Bytes Payload(size_t bytes, int from, int to = 0, int round = 0) {
  Bytes payload(bytes);
  uint32_t state = static_cast<uint32_t>(from * 7919 + to * 104729 + round * 1299709 + 1);
  for (uint8_t& byte : payload) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return payload;
}

inline std::string Message(const Status& status) {
  return std::string(ToStd(status.message()));
}

// "rank 2 (host7)"
inline std::string Named(const Communicator& comm, int rank) {
  return "rank " + std::to_string(rank) + " (" + comm.HostOf(rank) + ")";
}

inline void ExpectAllGather(Communicator& comm, const std::function<size_t(int)>& bytes_of,
                            int round, Deadline deadline) {
  std::vector<Bytes> all = {Payload(3, 99)};  // what was there before is replaced
  const Bytes mine = Payload(bytes_of(comm.rank()), comm.rank(), 0, round);
  const Status status = comm.AllGather(mine, all, deadline);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(all.size(), static_cast<size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) {
    // Not EXPECT_EQ: nobody wants megabytes of bytes printed.
    EXPECT_TRUE(all[static_cast<size_t>(r)] == Payload(bytes_of(r), r, 0, round)) << "rank " << r;
  }
}

inline void ExpectAllToAll(Communicator& comm, const std::function<size_t(int, int)>& bytes_of,
                           int round, Deadline deadline) {
  std::vector<Bytes> messages;
  for (int r = 0; r < comm.size(); ++r) {
    messages.push_back(Payload(bytes_of(comm.rank(), r), comm.rank(), r, round));
  }
  const std::vector<ByteView> to(messages.begin(), messages.end());
  std::vector<Bytes> from;
  const Status status = comm.AllToAll(to, from, deadline);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(from.size(), static_cast<size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) {
    EXPECT_TRUE(from[static_cast<size_t>(r)] ==
                Payload(bytes_of(r, comm.rank()), r, comm.rank(), round))
        << "rank " << r;
  }
}

inline void ExpectBroadcast(Communicator& comm, int root, size_t bytes, int round,
                            Deadline deadline) {
  const Bytes expected = Payload(bytes, root, 0, round);
  Bytes data = comm.rank() == root ? expected : Payload(11, 99);
  const Status status = comm.Broadcast(root, data, deadline);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(data == expected) << "from " << root << ", " << bytes << " bytes";
}

// The call failed, and so do all further ones, at once, with the same error.
inline void ExpectBroken(Communicator& comm, const Status& error, Deadline deadline) {
  EXPECT_FALSE(error.ok());
  std::vector<Bytes> all = {Payload(3, 99)};
  Bytes data = Payload(4, 99);
  const std::vector<ByteView> to(static_cast<size_t>(comm.size()));
  EXPECT_EQ(comm.Barrier(deadline), error);
  EXPECT_EQ(comm.AllGather(data, all, deadline), error);
  EXPECT_EQ(comm.AllToAll(to, all, deadline), error);
  EXPECT_EQ(comm.Broadcast(0, data, deadline), error);
  EXPECT_EQ(all, std::vector<Bytes>{Payload(3, 99)}) << "outputs are written only on success";
  EXPECT_EQ(data, Payload(4, 99)) << "outputs are written only on success";
}

TEST_P(CommunicatorConformance, RanksAreNumberedAndHaveHosts) {
  OnEveryRank([&](Communicator& comm) {
    EXPECT_GE(comm.rank(), 0);
    EXPECT_LT(comm.rank(), comm.size());
    for (int r = 0; r < comm.size(); ++r) EXPECT_FALSE(comm.HostOf(r).empty());
    std::vector<Bytes> ranks;
    const Bytes mine = {static_cast<uint8_t>(comm.rank())};
    ASSERT_TRUE(comm.AllGather(mine, ranks, Ample()).ok());
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(ranks[static_cast<size_t>(r)][0], r);
  });
}

TEST_P(CommunicatorConformance, AllGatherDeliversUnevenAndEmptyMessages) {
  OnEveryRank([&](Communicator& comm) {
    ExpectAllGather(
        comm, [](int r) { return static_cast<size_t>(r % 5) * 33; }, 0, Ample());
    ExpectAllGather(
        comm, [](int r) { return r == 0 ? 1000u : 0u; }, 1, Ample());
    ExpectAllGather(
        comm, [](int) { return 0u; }, 2, Ample());
  });
}

TEST_P(CommunicatorConformance, AllGatherMayReplaceItsOwnInput) {
  OnEveryRank([&](Communicator& comm) {
    std::vector<Bytes> all = {Payload(100, comm.rank())};
    ASSERT_TRUE(comm.AllGather(all[0], all, Ample()).ok());
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[static_cast<size_t>(r)], Payload(100, r));
  });
}

TEST_P(CommunicatorConformance, AllToAllDeliversToEachRankItsOwnMessage) {
  OnEveryRank([&](Communicator& comm) {
    const auto uneven = [](int from, int to) {
      return static_cast<size_t>(from * 3 + to * 5) % 47;
    };
    ExpectAllToAll(comm, uneven, 0, Ample());
    ExpectAllToAll(
        comm, [](int from, int to) { return from == to ? 9u : 0u; }, 1, Ample());
    ExpectAllToAll(
        comm, [](int, int) { return 0u; }, 2, Ample());
  });
}

TEST_P(CommunicatorConformance, BroadcastReplacesTheDataOfAllButRoot) {
  OnEveryRank([&](Communicator& comm) {
    const size_t size = static_cast<size_t>(comm.size());
    for (const int root : {0, comm.size() / 2, comm.size() - 1}) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size - 1, size, size + 1, size_t{4999}}) {
        ExpectBroadcast(comm, root, bytes, 0, Ample());
      }
    }
  });
}

TEST_P(CommunicatorConformance, MessagesOfManySmallChunksArriveWhole) {
  OnEveryRank({.chunk_bytes = 7}, [&](Communicator& comm) {
    ExpectAllGather(
        comm, [](int r) { return 3000 + static_cast<size_t>(r); }, 0, Ample());
    ExpectAllToAll(
        comm, [](int from, int to) { return static_cast<size_t>(from + 7 * to); }, 1, Ample());
    ExpectBroadcast(comm, comm.size() - 1, 5003, 2, Ample());
  });
}

TEST_P(CommunicatorConformance, LargeMessagesArriveWhole) {
  OnEveryRank({.chunk_bytes = (1 << 20) + 1}, [&](Communicator& comm) {
    // 3 MiB a rank; less in large groups, whose ranks together receive size^2 shares.
    const size_t size = static_cast<size_t>(comm.size());
    const size_t share = std::min(size_t{3} << 20, (size_t{48} << 20) / (size * size));
    ExpectAllGather(
        comm, [&](int r) { return share + static_cast<size_t>(r); }, 0, Ample());
    ExpectBroadcast(comm, 0, (size_t{3} << 20) + 5, 1, Ample());
  });
}

TEST_P(CommunicatorConformance, ManyRoundsBackToBackStayInStep) {
  OnEveryRank([&](Communicator& comm) {
    for (int round = 0; round < 100; ++round) {
      const auto bytes = [&](int r) { return static_cast<size_t>(r * 31 + round * 17) % 301; };
      ExpectAllGather(comm, bytes, round, Ample());
      ExpectBroadcast(comm, round % comm.size(), static_cast<size_t>(round), round, Ample());
      ExpectAllToAll(
          comm, [&](int from, int to) { return bytes(from + to) % 29; }, round, Ample());
      ASSERT_TRUE(comm.Barrier(Ample()).ok());
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST_P(CommunicatorConformance, BytesReceivedCountsThePayloadOfOthersAlone) {
  OnEveryRank([&](Communicator& comm) {
    const uint64_t others = static_cast<uint64_t>(comm.size()) - 1;
    ASSERT_TRUE(comm.Barrier(Ample()).ok());
    EXPECT_EQ(comm.BytesReceived(), 0u);
    ExpectAllGather(
        comm, [](int) { return 10u; }, 0, Ample());
    EXPECT_EQ(comm.BytesReceived(), others * 10);
    ExpectBroadcast(comm, 0, 1000, 0, Ample());
    const uint64_t broadcast = comm.rank() == 0 ? 0 : 1000;
    EXPECT_EQ(comm.BytesReceived(), others * 10 + broadcast);
    ExpectAllToAll(
        comm, [](int, int to) { return static_cast<size_t>(to); }, 0, Ample());
    EXPECT_EQ(comm.BytesReceived(),
              others * 10 + broadcast + others * static_cast<uint64_t>(comm.rank()));
  });
}

TEST_P(CommunicatorConformance, AMessageOfExactlyTheLimitPasses) {
  OnEveryRank({.max_message_bytes = 100}, [&](Communicator& comm) {
    ExpectAllGather(
        comm, [](int) { return 100u; }, 0, Ample());
    ExpectBroadcast(comm, 0, 100, 0, Ample());
  });
}

TEST_P(CommunicatorConformance, AllGatherAboveTheLimitIsRefusedByEveryRank) {
  OnEveryRank({.max_message_bytes = 100}, [&](Communicator& comm) {
    const int culprit = comm.size() - 1;
    std::vector<Bytes> all;
    const Bytes mine(comm.rank() == culprit ? 101 : 100);
    const Status status = comm.AllGather(mine, all, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(Message(status),
                testing::HasSubstr(Named(comm, culprit) + " announces " +
                                   std::to_string(101 + GetParam().framing_bytes) + " bytes"));
    EXPECT_TRUE(all.empty());
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, AllToAllAboveTheLimitIsRefusedEvenByRanksItDoesNotConcern) {
  OnEveryRank({.max_message_bytes = 100}, [&](Communicator& comm) {
    const Bytes large(101);
    std::vector<ByteView> to(static_cast<size_t>(comm.size()));
    if (comm.rank() == 0) to.back() = large;
    std::vector<Bytes> from;
    const Status status = comm.AllToAll(to, from, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(Message(status), testing::HasSubstr(Named(comm, 0)));
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, BroadcastAboveTheLimitIsRefusedByEveryRank) {
  OnEveryRank({.max_message_bytes = 100}, [&](Communicator& comm) {
    Bytes data = comm.rank() == 0 ? Bytes(101) : Payload(4, 99);
    const Bytes before = data;
    const Status status = comm.Broadcast(0, data, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(data, before);
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, RanksThatCallDifferentOperationsAllGetAnError) {
  OnEveryRank([&](Communicator& comm) {
    if (comm.size() == 1) return;  // nobody to disagree with
    ASSERT_TRUE(comm.Barrier(Ample()).ok());
    std::vector<Bytes> all;
    const Bytes mine = Payload(10, comm.rank());
    const Status status =
        comm.rank() == 1 ? comm.Barrier(Ample()) : comm.AllGather(mine, all, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(Message(status), testing::HasSubstr(Named(comm, 1) + " calls barrier 1"));
    EXPECT_TRUE(all.empty());
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, RanksThatNameDifferentRootsAllGetAnError) {
  OnEveryRank([&](Communicator& comm) {
    if (comm.size() == 1) return;
    Bytes data = Payload(10, comm.rank());
    const Status status = comm.Broadcast(comm.rank() == 0 ? 0 : 1, data, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(data, Payload(10, comm.rank()));
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, ARootThatIsNoRankIsRefused) {
  OnEveryRank([&](Communicator& comm) {
    Bytes data = Payload(10, comm.rank());
    const Status status = comm.Broadcast(comm.size(), data, Ample());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(data, Payload(10, comm.rank()));
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, AllToAllNeedsOneMessagePerRank) {
  OnEveryRank([&](Communicator& comm) {
    const std::vector<ByteView> to(static_cast<size_t>(comm.size()) + 1);
    std::vector<Bytes> from;
    const Status status = comm.AllToAll(to, from, Ample());
    // In one process the first rank to fail tells the others, who then need not look.
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnavailable(status)) << status;
    ExpectBroken(comm, status, Ample());
  });
}

TEST_P(CommunicatorConformance, ARankThatNeverArrivesIsNamedWhenTheDeadlinePasses) {
  OnEveryRank([&](Communicator& comm) {
    if (comm.size() == 1) return;
    const int absent = comm.size() - 1;
    ASSERT_TRUE(comm.Barrier(Ample()).ok());
    if (comm.rank() == absent) return;
    std::vector<Bytes> all;
    const Bytes mine = Payload(100, comm.rank());
    const Status status = comm.AllGather(mine, all, Short());
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(Message(status), testing::HasSubstr(Named(comm, absent)));
    EXPECT_TRUE(all.empty());
    ExpectBroken(comm, status, Ample());
  });
}

}  // namespace pulse
