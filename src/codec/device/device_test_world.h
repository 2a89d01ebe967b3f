// A mocked device with emulated kernels, and arrays on it. For tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/mocked_device.h"
#include "device/work.h"
#include "kernels/cuda/emulated_kernels.h"

namespace pulse {

class DeviceTestWorld {
 public:
  explicit DeviceTestWorld(bool backwards = false)
      : kernels_(kernels::EmulatedKernels(device_, backwards)) {}

  // Slots so small that every transfer goes in pieces.
  StatusOr<DeviceWork> OpenWork() {
    return DeviceWork::Open(driver_, clock_, {.slots = 2, .slot_bytes = 4096});
  }

  // Copies of a host's arrays; they live as long as the world.
  template <typename T>
  DeviceSpan<T> OnDevice(DeviceWork& work, const std::vector<T>& values) {
    rooms_.push_back(std::make_unique<DeviceRoom>());
    const auto span = rooms_.back()->Get<T>(driver_, values.size()).value();
    EXPECT_EQ(work.Up(std::span<const T>(values), span, Deadline::Never()), OkStatus());
    return span;
  }
  template <typename T>
  std::vector<T> FromDevice(DeviceWork& work, DeviceSpan<const T> span) {
    std::vector<T> values(span.size);
    EXPECT_EQ(work.Down<T>(span, std::span(values), Deadline::Never()), OkStatus());
    return values;
  }

  MockedDevice& device() { return device_; }
  const kernels::DeviceKernels& kernels() const { return kernels_; }

 private:
  VirtualClock clock_;
  MockedDevice device_;
  DeviceDriver driver_ = device_.Table();
  kernels::DeviceKernels kernels_;
  std::vector<std::unique_ptr<DeviceRoom>> rooms_;
};

}  // namespace pulse
