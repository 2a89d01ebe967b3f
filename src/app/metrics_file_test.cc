#include "app/metrics_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"

namespace pulse {
namespace {

constexpr char kStart[] = "{\"type\":\"start\",\"mode\":\"pulseloco\"}\n";
constexpr char kInitial[] = "{\"type\":\"evaluation\",\"when\":\"initial\"}\n";
constexpr char kFinal[] = "{\"type\":\"evaluation\",\"when\":\"final\"}\n";
constexpr char kEnd[] = "{\"type\":\"end\",\"round\":2}\n";

std::string Round(int round) {
  return fmt::format(
      "{{\"type\":\"round\",\"round\":{0}}}\n{{\"type\":\"version\",\"round\":{0}}}\n", round);
}

TEST(MetricsFile, KeepsWhatHappenedUpToTheRoundThatTheRunContinuesFrom) {
  const std::string text = std::string(kStart) + kInitial + Round(1) + Round(2) + Round(3);
  EXPECT_EQ(*KeptRecords(text, 2, 9), std::string(kStart) + kInitial + Round(1) + Round(2));
  EXPECT_EQ(*KeptRecords(text, 0, 9), std::string(kStart) + kInitial);
}

TEST(MetricsFile, KeepsTheEndOfARunThatIsOver) {
  const std::string text = kStart + Round(1) + Round(2) + kFinal + kEnd;
  EXPECT_EQ(*KeptRecords(text, 2, 2), text);
  EXPECT_EQ(*KeptRecords(text, 2, 4), kStart + Round(1) + Round(2));
}

TEST(MetricsFile, LeavesOutALineThatWasBeingWritten) {
  EXPECT_EQ(*KeptRecords(kStart + Round(1) + "{\"type\":\"rou", 1, 9), kStart + Round(1));
  const Status status = KeptRecords(std::string(kStart) + "{\"type\n" + kEnd, 1, 9).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(MetricsFile, KeepsAllRecordsOfAFollower) {
  const std::string text =
      "{\"type\":\"version\",\"version\":\"1.2\"}\n{\"type\":\"evaluation\"}\n";
  EXPECT_EQ(*KeptRecords(text, std::numeric_limits<uint64_t>::max(), 0), text);
}

TEST(MetricsFile, ContinuesWhereItWasCut) {
  const TemporaryFolder folder(TemporaryFolder::Where::kMemory);
  const auto fs = MakePosixFilesystem();
  const std::string path = folder.path() + "/metrics.jsonl";
  EXPECT_EQ(*RecordedRounds(*fs, path), 0u);
  {
    const auto file = MetricsFile::Create(*fs, path);
    ASSERT_TRUE(file.ok()) << file.status();
    for (int round = 1; round <= 3; ++round) {
      const std::string lines = Round(round);
      ASSERT_TRUE((*file)->Append(lines.substr(0, lines.size() - 1)).ok());
    }
  }
  EXPECT_EQ(*RecordedRounds(*fs, path), 3u);
  EXPECT_TRUE(absl::IsAlreadyExists(MetricsFile::Create(*fs, path).status()));
  const auto file = MetricsFile::Continue(*fs, path, 2, 9);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("{\"type\":\"resume\",\"round\":2}").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(AsText(*ReadFile(*fs, path, 1 << 20)),
            Round(1) + Round(2) + "{\"type\":\"resume\",\"round\":2}\n");
}

TEST(MetricsFile, IsWholeWhereverContinuingItFails) {
  const TemporaryFolder folder(TemporaryFolder::Where::kMemory);
  const auto fs = MakePosixFilesystem();
  const std::string path = folder.path() + "/metrics.jsonl";
  VirtualClock clock;
  ForEachFault(
      clock, {Fault::FailBefore, Fault::KillBefore, Fault::KillAfter},
      [&](FaultInjector& injector) {
        const std::string before = kStart + Round(1) + Round(2);
        ASSERT_TRUE(WriteFileAtomically(*fs, path, AsBytes(std::string_view(before))).ok());
        const auto faulty = MakeFaultInjectingFilesystem(*fs, injector);
        injector.Survives([&] { (void)MetricsFile::Continue(*faulty, path, 1, 9).status(); });
        const std::string after(AsText(*ReadFile(*fs, path, 1 << 20)));
        EXPECT_TRUE(after == before || after == kStart + Round(1)) << injector.Plan();
      });
}

}  // namespace
}  // namespace pulse
