#include "app/console.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(Console, FormatsBytesWithThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.00 kB");
  EXPECT_EQ(FormatBytes(999'999), "1.00 MB");
  EXPECT_EQ(FormatBytes(15'200'000'000), "15.2 GB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "18.4 EB");
}

TEST(Console, FormatsSeconds) {
  EXPECT_EQ(FormatSeconds(0.85), "850 ms");
  EXPECT_EQ(FormatSeconds(12.3), "12.3 s");
  EXPECT_EQ(FormatSeconds(200), "3 min 20 s");
  EXPECT_EQ(FormatSeconds(7260), "2 h 1 min");
}

TEST(LiveLine, InAPipeItPrintsSparselyAndAlwaysTheLast) {
  VirtualClock clock;
  const Console console{.progress = ShowProgress::kAuto, .clock = &clock};
  testing::internal::CaptureStderr();
  {
    LiveLine line(console);
    for (int round = 1; round <= 12; ++round) {
      line.Show(std::string("round ") + std::to_string(round));
      clock.SleepFor(1'000'000'000);
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "round 1\nround 6\nround 11\nround 12\n");
}

TEST(ProgressBar, IsSilentInAPipeAndRewritesALineWhenForced) {
  VirtualClock clock;
  Console console{.clock = &clock};
  testing::internal::CaptureStderr();
  { ProgressBar(console, "fetch", 100).Update(50); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  console.progress = ShowProgress::kAlways;
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(console, "fetch", 2'000'000);
    clock.SleepFor(1'000'000'000);
    bar.Update(1'000'000);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "\r\x1b[Kfetch [############............]  50 % 1.00 MB 1.00 MB/s, 1.0 s left\n");
}

}  // namespace
}  // namespace pulse
