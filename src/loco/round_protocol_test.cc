#include "loco/round_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "collective/in_process.h"

namespace pulse::loco {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string MessageOf(const Status& status) {
  return std::string(ToStd(status.message()));
}

RankStatus FullRow() {
  RankStatus row;
  row.phase = Phase::kExchange;
  row.round = 0x1122334455667788;
  row.step = 3;
  row.fingerprint.bytes[5] = 9;
  row.code = absl::StatusCode::kDataLoss;
  row.finite = false;
  row.stop_requested = true;
  row.busy = true;
  row.entries = uint64_t{1} << 40;
  row.payload_bytes = (uint64_t{1} << 41) + 1;
  return row;
}

TEST(RankStatus, ReadsBack) {
  const Bytes bytes = EncodeRankStatus(FullRow());
  ASSERT_EQ(bytes.size(), kRankStatusBytes);
  const auto row = DecodeRankStatus(bytes);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->phase, Phase::kExchange);
  EXPECT_EQ(row->round, 0x1122334455667788u);
  EXPECT_EQ(row->step, 3u);
  EXPECT_EQ(row->fingerprint, FullRow().fingerprint);
  EXPECT_EQ(row->code, absl::StatusCode::kDataLoss);
  EXPECT_FALSE(row->finite);
  EXPECT_TRUE(row->stop_requested);
  EXPECT_TRUE(row->busy);
  EXPECT_EQ(row->entries, uint64_t{1} << 40);
  EXPECT_EQ(row->payload_bytes, (uint64_t{1} << 41) + 1);
}

TEST(RankStatus, RefusesEveryLengthButItsOwn) {
  Bytes bytes = EncodeRankStatus(FullRow());
  for (size_t length = 0; length < kRankStatusBytes; ++length) {
    EXPECT_EQ(DecodeRankStatus(ByteView(bytes).first(length)).status().code(),
              absl::StatusCode::kDataLoss);
  }
  bytes.push_back(0);
  EXPECT_FALSE(DecodeRankStatus(bytes).ok());
}

// What is accepted is what an encoder would write: any other byte in a field with few values fails.
TEST(RankStatus, AcceptsNothingThatItWouldNotWrite) {
  const Bytes good = EncodeRankStatus(FullRow());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<uint8_t>(value);
      const auto row = DecodeRankStatus(bytes);
      if (row.ok()) {
        EXPECT_EQ(EncodeRankStatus(*row), bytes) << at;
      }
    }
  }
}

std::vector<RankStatus> Table(size_t ranks) {
  RankStatus row;
  row.phase = Phase::kExchange;
  row.round = 17;
  return std::vector<RankStatus>(ranks, row);
}

StatusOr<Decision> DecideOn(const std::vector<RankStatus>& table, OnNonFinite rule) {
  const auto group = MakeInProcessGroup(4, {.hosts = {"a", "b", "c", "d"}});
  return Decide(*group->front(), table, rule);
}

TEST(Decide, LetsAllContributeWhenAllIsWell) {
  const auto decision = DecideOn(Table(3), OnNonFinite::kStop);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->contributes, (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(decision->contributors, 3u);
  EXPECT_FALSE(decision->stop);
}

TEST(Decide, DropsOrStopsForNonFinite) {
  auto table = Table(3);
  table[1].finite = false;
  const auto decision = DecideOn(table, OnNonFinite::kDrop);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->contributes, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(decision->contributors, 2u);
  EXPECT_THAT(MessageOf(DecideOn(table, OnNonFinite::kStop).status()),
              HasSubstr("trainer 1 has non-finite gradients or weights on rank 1 (b);"));
}

TEST(Decide, StopsWhenAnyRankAsks) {
  auto table = Table(3);
  table[2].stop_requested = true;
  EXPECT_TRUE(DecideOn(table, OnNonFinite::kDrop)->stop);
}

TEST(Decide, NamesTheRankThatIsARoundBehind) {
  auto table = Table(4);
  table[2].round = 16;
  const Status status = DecideOn(table, OnNonFinite::kDrop).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("rank 2 (c) is at the exchange of round 16"),
                                       HasSubstr("rank 0 is at the exchange of round 17")));
  EXPECT_THAT(MessageOf(status), testing::Not(HasSubstr("rank 3")));
}

TEST(Decide, NamesTheRankThatIsAtAnotherStepOrPhase) {
  auto table = Table(3);
  table[0].step = 5;
  EXPECT_THAT(MessageOf(DecideOn(table, OnNonFinite::kDrop).status()),
              HasSubstr("rank 0 (a) is at"));
  table = Table(3);
  table[1].phase = Phase::kEnd;
  EXPECT_THAT(MessageOf(DecideOn(table, OnNonFinite::kDrop).status()),
              HasSubstr("rank 1 (b) is at the end of round 17"));
}

struct Attendee {
  RankStatus row;
  Status local;
  std::string setting = "1";
};

std::vector<Status> MeetAll(const std::vector<Attendee>& attendees) {
  auto group = MakeInProcessGroup(static_cast<int>(attendees.size()));
  EXPECT_TRUE(group.ok());
  std::vector<Status> results(attendees.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < attendees.size(); ++r) {
    threads.emplace_back([&, r] {
      Fingerprint fingerprint;
      fingerprint.Add("setting", attendees[r].setting);
      results[r] = Meet(*(*group)[r], attendees[r].row, attendees[r].local, fingerprint,
                        OnNonFinite::kDrop, Deadline::Never())
                       .status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Meet, TellsEveryRankAboutTheRankThatIsBehind) {
  std::vector<Attendee> attendees(3);
  for (Attendee& a : attendees) a.row.round = 9;
  attendees[1].row.round = 8;
  for (const Status& status : MeetAll(attendees)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(status), HasSubstr("rank 1 (localhost) is at the start of round 8"));
  }
}

TEST(Meet, NamesTheSettingThatDiffersBeforeAnythingElse) {
  std::vector<Attendee> attendees(3);
  attendees[2] = {.row = {}, .local = Internal("too"), .setting = "2"};
  attendees[1].row.round = 5;
  for (const Status& status : MeetAll(attendees)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("setting is 1 on rank 0, 1 and 2 on rank 2"),
                                         HasSubstr("unlike most: rank 2 (localhost)")));
  }
}

TEST(Meet, GivesTheLowestFailingRanksErrorToThoseThatDidNotFail) {
  std::vector<Attendee> attendees(4);
  attendees[1].local = NotFound("disk");
  attendees[3].local = DataLoss("memory");
  const auto results = MeetAll(attendees);
  EXPECT_EQ(results[0].code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(results[0]), "rank 1 (localhost) failed: disk");
  EXPECT_EQ(MessageOf(results[1]), "disk");
  EXPECT_EQ(MessageOf(results[2]), "rank 1 (localhost) failed: disk");
  EXPECT_EQ(MessageOf(results[3]), "memory");
}

}  // namespace
}  // namespace pulse::loco
