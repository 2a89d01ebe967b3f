#include "inference_bridge/follow_state.h"

#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

FollowState State() {
  FollowState state;
  state.run = "main";
  state.holder = "pid 17 on host-a";
  state.seen.emplace();
  state.seen->id = {3, 41, std::string(32, 'a')};
  state.seen->manifest_sha256 = std::string(64, 'b');
  return state;
}

TEST(FollowState, ComesBackAsItWasWritten) {
  VirtualClock clock;
  UnsyncedFilesystem fs(clock);
  EXPECT_EQ(*LoadFollowState(fs, "/state"), std::nullopt);
  ASSERT_TRUE(StoreFollowState(fs, "/state", State()).ok());
  fs.Crash();
  EXPECT_EQ(*LoadFollowState(fs, "/state"), State());
  FollowState fresh;
  fresh.run = "other";
  ASSERT_TRUE(StoreFollowState(fs, "/state", fresh).ok());
  EXPECT_EQ(*LoadFollowState(fs, "/state"), fresh);
}

TEST(FollowState, IsSpelledInOneWay) {
  EXPECT_EQ(
      SerializeFollowState(State()),
      "{\"format\":\"pulse.follower/1\",\"holder\":\"pid 17 on host-a\",\"run\":\"main\",\"seen\":{"
      "\"manifest_sha256\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\","
      "\"version\":\"3.41.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},\"sha256\":\""
      "f833c4311082cd2cf660771da2419d6b689b914cefd6a2c4914e5a3709f66610\"}\n");
}

TEST(FollowState, EveryFlippedBitAndEveryTruncationIsRefused) {
  const std::string text = SerializeFollowState(State());
  for (size_t i = 0; i < text.size() * 8; ++i) {
    std::string damaged = text;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    EXPECT_TRUE(absl::IsDataLoss(ParseFollowState(AsBytes(damaged)).status())) << damaged;
  }
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(ParseFollowState(AsBytes(text.substr(0, size))).status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(ParseFollowState(AsBytes(text + " ")).status()));
}

TEST(FollowState, DamageIsToldWithTheFileAndWhatToDo) {
  VirtualClock clock;
  UnsyncedFilesystem fs(clock);
  ASSERT_TRUE(WriteFileAtomically(fs, "/out.state", AsBytes("{}")).ok());
  const Status status = LoadFollowState(fs, "/out.state").status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(ToStd(status.message()).find("/out.state is damaged"), std::string::npos) << status;
  ASSERT_TRUE(WriteFileAtomically(fs, "/out.state", Bytes(5000, ' ')).ok());
  EXPECT_TRUE(absl::IsDataLoss(LoadFollowState(fs, "/out.state").status()));
}

}  // namespace
}  // namespace pulse
