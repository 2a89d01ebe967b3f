#include "device/staging_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rng.h"
#include "device/mocked_device.h"

namespace pulse {
namespace {

Bytes RandomBytes(size_t n) {
  Bytes bytes(n);
  Rng rng(4, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(n)});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  return bytes;
}

// Up, then down again, through one ring. The device's memory ends in a fence of the mock's.
Status RoundTrip(MockedDevice& device, VirtualClock& clock, const StagingOptions& options,
                 const Bytes& bytes, Bytes& back) {
  const DeviceDriver driver = device.Table();
  PULSE_ASSIGN_OR_RETURN(const OwnedStream stream, OwnedStream::Open(driver));
  PULSE_ASSIGN_OR_RETURN(const DeviceBuffer memory, DeviceBuffer::Open(driver, bytes.size()));
  PULSE_ASSIGN_OR_RETURN(StagingRing ring, StagingRing::Open(driver, clock, options));
  const Deadline deadline = Deadline::After(clock, 1000);
  PULSE_RETURN_IF_ERROR(ring.Upload(bytes, memory.span(), stream.get(), deadline));
  back.assign(bytes.size(), 0);
  return ring.Download(memory.span(), back, stream.get(), deadline);
}

TEST(StagingRing, BringsBytesUpAndDownWholeWhateverTheSlots) {
  for (const uint32_t slots : {1u, 2u, 3u}) {
    for (const size_t n : {0, 1, 6, 7, 8, 13, 14, 15, 21, 22, 100}) {
      MockedDevice device;
      VirtualClock clock;
      const Bytes bytes = RandomBytes(n);
      Bytes back;
      ASSERT_EQ(RoundTrip(device, clock, {slots, 7}, bytes, back), OkStatus());
      EXPECT_EQ(back, bytes) << slots << " slots, " << n << " bytes";
      EXPECT_THAT(device.violations(), testing::IsEmpty());
      EXPECT_EQ(device.live(), 0u);
    }
  }
}

TEST(StagingRing, ReusesNoSlotWhoseCopyIsUnderWay) {
  MockedDevice device;
  VirtualClock clock;
  const DeviceDriver driver = device.Table();
  {
    const OwnedStream stream = OwnedStream::Open(driver).value();
    const DeviceBuffer memory = DeviceBuffer::Open(driver, 21).value();
    StagingRing ring = StagingRing::Open(driver, clock, {2, 7}).value();
    device.Hold(true);
    const Bytes two = RandomBytes(14);
    // Two slots take two pieces without waiting; the third piece waits, in vain.
    EXPECT_EQ(ring.Upload(two, memory.span().first(14), stream.get(), Deadline::After(clock, 0)),
              OkStatus());
    const Status late = ring.Upload(RandomBytes(7), memory.span().subspan(14, 7), stream.get(),
                                    Deadline::After(clock, 5));
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
    device.Hold(false);
    device.Progress();
    EXPECT_TRUE(std::equal(two.begin(), two.end(), memory.span().data));
    EXPECT_EQ(ring.Upload({}, {}, stream.get(), Deadline::Never()), late) << "broken stays broken";
  }
  EXPECT_EQ(device.live(), 0u);
}

TEST(StagingRing, ReportsTheFailureOfEveryCallAndLeavesNothingBehind) {
  const Bytes bytes = RandomBytes(30);
  for (uint64_t call = 0;; ++call) {
    MockedDevice device;
    VirtualClock clock;
    device.FailCall(call, 719);  // cudaErrorLaunchFailure
    Bytes back;
    const Status status = RoundTrip(device, clock, {2, 7}, bytes, back);
    EXPECT_EQ(device.live(), 0u) << "call " << call;
    EXPECT_THAT(device.violations(), testing::IsEmpty()) << "call " << call;
    if (!device.failed_a_call()) {
      EXPECT_EQ(status, OkStatus());
      EXPECT_GT(call, 20u) << "the scenario makes calls that can fail";
      break;
    }
    EXPECT_TRUE(absl::IsUnavailable(status)) << "call " << call << ": " << status;
  }
}

TEST(StagingRing, TellsMemoryThatRanOutFromADeviceThatIsLost) {
  MockedDevice device;
  VirtualClock clock;
  const DeviceDriver driver = device.Table();
  device.FailCall(0, kDeviceOutOfMemory);
  const Status status = StagingRing::Open(driver, clock, {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())),
              testing::HasSubstr("allocating pinned host memory"));
}

TEST(StagingRing, RefusesARingOfNothing) {
  MockedDevice device;
  VirtualClock clock;
  const DeviceDriver driver = device.Table();
  EXPECT_TRUE(absl::IsInvalidArgument(StagingRing::Open(driver, clock, {0, 7}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StagingRing::Open(driver, clock, {2, 0}).status()));
}

}  // namespace
}  // namespace pulse
