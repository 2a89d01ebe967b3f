#include "collective/fault_injecting.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "collective/in_process.h"

namespace pulse {
namespace {

using When = CommunicatorFault::When;
using Action = CommunicatorFault::Action;

// Two ranks; rank 1 suffers the plan.
class FaultInjecting : public testing::Test {
 protected:
  void Open(CommunicatorFaultPlan plan) {
    auto group = MakeInProcessGroup(2).value();
    healthy_ = std::move(group[0]);
    faulty_ = std::make_unique<FaultInjectingCommunicator>(std::move(group[1]), std::move(plan),
                                                           virtual_clock_);
  }

  void OnBoth(const std::function<void(Communicator&)>& body) {
    std::thread other([&] { body(*healthy_); });
    body(*faulty_);
    other.join();
  }

  VirtualClock virtual_clock_;
  std::unique_ptr<Communicator> healthy_;
  std::unique_ptr<FaultInjectingCommunicator> faulty_;
};

using FaultInjectingDeathTest = FaultInjecting;

TEST_F(FaultInjecting, WithoutFaultsPassesEverythingOnAndCountsOperations) {
  Open({});
  OnBoth([](Communicator& comm) {
    const Bytes mine = {static_cast<uint8_t>(comm.rank())};
    std::vector<Bytes> all;
    ASSERT_TRUE(comm.AllGather(mine, all, Deadline::Never()).ok());
    EXPECT_EQ(all, (std::vector<Bytes>{{0}, {1}}));
    const std::vector<ByteView> to(2, mine);
    std::vector<Bytes> from;
    ASSERT_TRUE(comm.AllToAll(to, from, Deadline::Never()).ok());
    EXPECT_EQ(from, (std::vector<Bytes>{{0}, {1}}));
    for (int root = 0; root < 2; ++root) {
      Bytes data = mine;
      ASSERT_TRUE(comm.Broadcast(root, data, Deadline::Never()).ok());
      EXPECT_EQ(data, Bytes{static_cast<uint8_t>(root)});
    }
    ASSERT_TRUE(comm.Barrier(Deadline::Never()).ok());
  });
  EXPECT_EQ(faulty_->operations(), 5u);
  EXPECT_EQ(faulty_->BytesReceived(), healthy_->BytesReceived());
}

TEST_F(FaultInjecting, AFailureBeforeTheOperationIsSeenByTheOthers) {
  Open({{.operation = 1, .when = When::kBefore, .status = Unavailable("cable cut")}});
  OnBoth([&](Communicator& comm) {
    EXPECT_TRUE(comm.Barrier(Deadline::Never()).ok());
    const Status status = comm.Barrier(Deadline::After(virtual_clock_, 0));
    if (comm.rank() == 1) {
      EXPECT_EQ(status, Unavailable("cable cut"));
      EXPECT_EQ(comm.Barrier(Deadline::Never()), status) << "broken after an error";
    } else {
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    }
  });
  EXPECT_EQ(faulty_->operations(), 2u);
}

TEST_F(FaultInjecting, AFailureAfterTheOperationHitsThisRankAloneAndWritesNothing) {
  Open({{.operation = 0, .when = When::kAfter, .status = Unavailable("cable cut")}});
  OnBoth([](Communicator& comm) {
    std::vector<Bytes> all;
    const Bytes mine = {7};
    const Status status = comm.AllGather(mine, all, Deadline::Never());
    EXPECT_EQ(status.ok(), comm.rank() == 0);
    EXPECT_EQ(all.size(), comm.rank() == 0 ? 2u : 0u);
  });
}

TEST_F(FaultInjecting, ADelayTakesTimeOfTheClockItWasGiven) {
  Open({{.operation = 0, .action = Action::kDelay, .delay_ns = 3}});
  OnBoth([](Communicator& comm) { EXPECT_TRUE(comm.Barrier(Deadline::Never()).ok()); });
  EXPECT_EQ(virtual_clock_.NowNs(), 3);
}

TEST_F(FaultInjecting, AFlippedBitChangesWhatOthersSentAndNothingElse) {
  Open({{.operation = 0, .action = Action::kFlipBit, .bit = 9},
        {.operation = 1, .action = Action::kFlipBit, .bit = 16 + 3},
        {.operation = 2, .action = Action::kFlipBit},
        {.operation = 3, .action = Action::kFlipBit}});
  OnBoth([](Communicator& comm) {
    const Bytes zeros(2);
    std::vector<Bytes> all;
    ASSERT_TRUE(comm.AllGather(zeros, all, Deadline::Never()).ok());
    EXPECT_EQ(all, (std::vector<Bytes>{comm.rank() == 1 ? Bytes{0, 2} : zeros, zeros}));
    Bytes data(2);  // bit 19 of 16 is bit 3
    ASSERT_TRUE(comm.Broadcast(0, data, Deadline::Never()).ok());
    EXPECT_EQ(data, comm.rank() == 1 ? (Bytes{8, 0}) : zeros);
    ASSERT_TRUE(comm.Broadcast(1, data = zeros, Deadline::Never()).ok());
    EXPECT_EQ(data, zeros) << "root receives nothing";
    ASSERT_TRUE(comm.Barrier(Deadline::Never()).ok());
  });
}

TEST_F(FaultInjecting, ACallMayThrowToPlayADeathThatTheTestCatches) {
  Open({{.operation = 1, .when = When::kAfter, .action = Action::kCall, .call = [] { throw 7; }}});
  OnBoth([](Communicator& comm) {
    EXPECT_TRUE(comm.Barrier(Deadline::Never()).ok());
    if (comm.rank() == 1) {
      EXPECT_THROW((void)comm.Barrier(Deadline::Never()), int);
    } else {
      EXPECT_TRUE(comm.Barrier(Deadline::Never()).ok());
    }
  });
}

TEST_F(FaultInjectingDeathTest, AKillEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        Open({{.operation = 0, .action = Action::kKillProcess}});
        (void)faulty_->Barrier(Deadline::Never());
        ::_exit(0);
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FaultInjectingDeathTest, AHungRankDoesNotReturnUntilItIsKilled) {
  EXPECT_EXIT(
      {
        Open({{.operation = 0, .action = Action::kHang}});
        ::alarm(1);  // the default action of SIGALRM ends the hung process
        (void)faulty_->Barrier(Deadline::Never());
        ::_exit(0);
      },
      testing::KilledBySignal(SIGALRM), "");
}

}  // namespace
}  // namespace pulse
