#include "collective/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

std::vector<std::string> Hosts() {
  return {"ant", "bee", "cat"};
}

std::vector<CallHeader> Agreed() {
  return std::vector<CallHeader>(3, {.operation = Operation::kAllGather, .sequence = 12});
}

std::string Message(const Status& status) {
  return std::string(ToStd(status.message()));
}

TEST(CheckCalls, AcceptsRanksThatMakeTheSameCallWithDifferentLengths) {
  std::vector<CallHeader> calls = Agreed();
  calls[1].bytes = calls[1].largest_bytes = 100;
  EXPECT_TRUE(CheckCalls(calls, 100, Hosts()).ok());
}

TEST(CheckCalls, NamesWhoCallsWhatWhenOperationsDiffer) {
  std::vector<CallHeader> calls = Agreed();
  calls[1].operation = Operation::kBarrier;
  const Status status = CheckCalls(calls, 100, Hosts());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("rank 0 (ant), rank 2 (cat) call all-gather 12; "
                                         "rank 1 (bee) calls barrier 12"));
}

TEST(CheckCalls, FindsARankThatIsOneCallBehind) {
  std::vector<CallHeader> calls = Agreed();
  calls[2].sequence = 11;
  const Status status = CheckCalls(calls, 100, Hosts());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("rank 2 (cat) calls all-gather 11"));
}

TEST(CheckCalls, FindsDifferentAndImpossibleRoots) {
  std::vector<CallHeader> calls(3, {.operation = Operation::kBroadcast, .root = 1});
  calls[0].root = 2;
  EXPECT_EQ(CheckCalls(calls, 100, Hosts()).code(), StatusCode::kInternal);
  for (const int64_t root : {int64_t{-1}, int64_t{3}}) {
    for (CallHeader& call : calls) call.root = root;
    EXPECT_EQ(CheckCalls(calls, 100, Hosts()).code(), StatusCode::kInvalidArgument) << root;
  }
}

TEST(CheckCalls, RefusesAnotherProtocol) {
  std::vector<CallHeader> calls = Agreed();
  calls[2].magic = 0x32434C50;
  const Status status = CheckCalls(calls, 100, Hosts());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("rank 2 (cat)"));
}

TEST(CheckCalls, RefusesTooLargeAMessageEvenIfItGoesToAnotherRank) {
  std::vector<CallHeader> calls = Agreed();
  calls[2].largest_bytes = uint64_t{1} << 40;  // calls[2].bytes, what we get, is 0
  const Status status = CheckCalls(calls, 100, Hosts());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("rank 2 (cat) announces 1099511627776 bytes"));
}

TEST(MissingRanks, NamesCallRanksHostsAndTime) {
  const Status status = MissingRanks(Agreed()[0], {0, 2}, Hosts(), 30'000'000'000);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(status),
            "all-gather 12: no data from rank 0 (ant), rank 2 (cat) within 30.0 s");
}

}  // namespace
}  // namespace pulse
