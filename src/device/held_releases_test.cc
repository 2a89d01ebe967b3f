#include "device/held_releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/mocked_device.h"
#include "device/work.h"

namespace pulse {
namespace {

TEST(HeldReleases, PutsOffWhatARoomOutgrowsUntilItIsTold) {
  MockedDevice device;
  {
    const DeviceDriver driver = device.Table();
    HeldReleases releases(driver);
    DeviceRoom room;
    ASSERT_TRUE(room.Get<uint8_t>(releases.table(), 100).ok());
    ASSERT_TRUE(room.Get<uint8_t>(releases.table(), 10'000).ok());
    EXPECT_EQ(device.live(), 1u) << "nothing is held yet";
    {
      const HeldReleases::Scope scope(releases);
      ASSERT_TRUE(room.Get<uint8_t>(releases.table(), 100'000).ok());
      ASSERT_TRUE(room.Get<uint8_t>(releases.table(), 1'000'000).ok());
      EXPECT_EQ(device.live(), 3u);
    }
    EXPECT_EQ(device.live(), 1u);
    releases.Hold();
    room = DeviceRoom();
    EXPECT_EQ(device.live(), 1u);
  }
  EXPECT_EQ(device.live(), 0u) << "it gives back what it held as it goes";
  EXPECT_THAT(device.violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace pulse
