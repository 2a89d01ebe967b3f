#include "core/clock.h"

#include <gtest/gtest.h>

#include "core/deadline.h"

namespace pulse {
namespace {

TEST(Deadline, ExpiresOnAVirtualClockExactlyWhenItsTimeIsUp) {
  VirtualClock clock;
  const Deadline deadline = Deadline::After(clock, 5);
  EXPECT_FALSE(deadline.Expired());
  clock.SleepFor(4'999'999);
  EXPECT_EQ(deadline.RemainingNs(), 1);
  EXPECT_FALSE(deadline.Expired());
  clock.SleepFor(1);
  EXPECT_TRUE(deadline.Expired());
}

TEST(Deadline, NeverDoesNotExpire) {
  EXPECT_FALSE(Deadline::Never().Expired());
}

TEST(RealClock, IsSteadyAndSleepsAtLeastAsLongAsAsked) {
  RealClock clock;
  const int64_t before = clock.NowNs();
  clock.SleepFor(2'000'000);
  EXPECT_GE(clock.NowNs() - before, 2'000'000);
}

}  // namespace
}  // namespace pulse
