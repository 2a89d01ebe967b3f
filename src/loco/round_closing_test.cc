#include "loco/round_closing.h"

#include <gtest/gtest.h>

#include <limits>

namespace pulse::loco {
namespace {

RankClosing FullClosing() {
  RankClosing closing;
  closing.theta.bytes[0] = 1;
  closing.shared.bytes[15] = 2;
  closing.view_changes = 77;
  closing.theta_is_usable = false;
  closing.traffic = {.sent = 3, .received = uint64_t{1} << 50};
  closing.seconds = {.compute = 1, .gate = 2, .meet = 3, .exchange = 4, .outer = 5, .digest = 6};
  closing.metrics = {{"games", 32}, {"reward_sum", -0.25}, {"wins", 7}};
  return closing;
}

TEST(RankClosing, ReadsBack) {
  const auto read = DecodeRankClosing(EncodeRankClosing(FullClosing()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->theta, FullClosing().theta);
  EXPECT_EQ(read->shared, FullClosing().shared);
  EXPECT_EQ(read->traffic.sent, 3u);
  EXPECT_EQ(read->traffic.received, uint64_t{1} << 50);
  EXPECT_EQ(read->view_changes, 77u);
  EXPECT_FALSE(read->theta_is_usable);
  EXPECT_EQ(read->seconds.outer, 5);
  EXPECT_EQ(read->metrics, FullClosing().metrics);
  EXPECT_TRUE(DecodeRankClosing(EncodeRankClosing({})).ok());
}

TEST(RankClosing, RefusesEveryCutAndEverythingBehindItsEnd) {
  Bytes bytes = EncodeRankClosing(FullClosing());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeRankClosing(ByteView(bytes).first(length)).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  }
  bytes.push_back(0);
  EXPECT_FALSE(DecodeRankClosing(bytes).ok());
}

TEST(RankClosing, AcceptsNothingThatItWouldNotWrite) {
  const Bytes good = EncodeRankClosing(FullClosing());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      Bytes bytes = good;
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ flip);
      const auto read = DecodeRankClosing(bytes);
      if (read.ok()) {
        EXPECT_EQ(EncodeRankClosing(*read), bytes) << at;
      }
    }
  }
}

TEST(SumClosings, AddsFiguresAndKeepsTheSlowestPhase) {
  RankClosing second = FullClosing();
  second.metrics = {{"games", 1}};  // a rank may lack a figure
  second.seconds.compute = 9;
  second.seconds.gate = 0;
  const std::vector<RankClosing> closings = {FullClosing(), second};
  RoundReport report;
  SumClosings(closings, 1, report);
  EXPECT_EQ(report.metrics, (Metrics{{"games", 33}, {"reward_sum", -0.25}, {"wins", 7}}));
  EXPECT_EQ(report.traffic_of_all.sent, 6u);
  EXPECT_EQ(report.slowest.compute, 9);
  EXPECT_EQ(report.slowest.gate, 2);
  EXPECT_EQ(report.view_changes, 77u) << "all trainers change the same";
  RoundReport of_shards;
  SumClosings(closings, 2, of_shards);
  EXPECT_EQ(of_shards.view_changes, 154u);
}

TEST(DenseBytes, IsTheFormulaOfTheDesign) {
  EXPECT_EQ(DenseBytes(1000, 1), 0u);
  EXPECT_EQ(DenseBytes(1000, 2), 4000u);
  EXPECT_EQ(DenseBytes(1000, 4), 6000u);
}

}  // namespace
}  // namespace pulse::loco
