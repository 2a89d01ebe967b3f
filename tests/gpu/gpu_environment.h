// What every GPU test program starts from: the device, or the probe's words for why there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "device/cuda_driver.h"
#include "device/resources.h"

namespace pulse {

// Device memory for a test, and the way there and back. Synchronous: tests may wait.
class GpuTest : public testing::Test {
 protected:
  // Skips, with the probe's words, where there is no device, unless PULSE_GPU_REQUIRED is set: then
  // that is a failure (tests/gpu/run.sh sets it once its own probe has found a device).
  void SetUp() override {
    const CudaFacts facts = ProbeCuda();
    if (facts.devices == 0) {
      if (std::getenv("PULSE_GPU_REQUIRED")) FAIL() << facts.words;
      GTEST_SKIP() << facts.words;
    }
    driver_ = CudaDriver();
    ASSERT_TRUE(SelectCudaDevice(driver_, 0).ok());
    stream_ = OwnedStream::Open(driver_).value();
    event_ = OwnedEvent::Open(driver_).value();
  }

  // `shift` elements behind an aligned address.
  template <typename T>
  DeviceSpan<T> OnDevice(const std::vector<T>& values, uint64_t shift = 0) {
    DeviceSpan<T> span = Room<T>(values.size(), shift);
    Copy(span.data, values.data(), span.size_bytes());
    return span;
  }
  // Elements that start as 0xA5 bytes, with as many more of these behind them.
  template <typename T>
  DeviceSpan<T> Room(uint64_t n, uint64_t shift = 0) {
    buffers_.push_back(DeviceBuffer::Open(driver_, (n + shift) * sizeof(T) + kFence).value());
    const DeviceSpan<uint8_t> all = buffers_.back().span();
    EXPECT_EQ(driver_.fill(all.data, 0xA5, all.size, stream_.get()), 0);
    return {reinterpret_cast<T*>(all.data) + shift, n};
  }
  // The values; what lies behind them must be untouched.
  template <typename T>
  std::vector<T> FromDevice(DeviceSpan<const T> span) {
    std::vector<T> values(span.size);
    std::vector<uint8_t> fence(kFence);
    Copy(values.data(), span.data, span.size_bytes());
    Copy(fence.data(), span.data + span.size, kFence);
    EXPECT_EQ(fence, std::vector<uint8_t>(kFence, 0xA5)) << "written behind the end";
    return values;
  }
  void Synchronise() {
    ASSERT_EQ(driver_.record(event_.get(), stream_.get()), 0);
    DeviceCode code = kDeviceNotReady;
    while (code == kDeviceNotReady) code = driver_.query(event_.get());
    ASSERT_EQ(code, 0) << driver_.describe(code);
  }

  DeviceDriver driver_;
  OwnedStream stream_;
  OwnedEvent event_;

 private:
  static constexpr uint64_t kFence = 64;

  void Copy(void* to, const void* from, uint64_t bytes) {
    ASSERT_EQ(driver_.copy(to, from, bytes, stream_.get()), 0);
    Synchronise();
  }

  std::vector<DeviceBuffer> buffers_;
};

}  // namespace pulse
