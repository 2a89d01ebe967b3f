// The calls of a device's runtime that host code makes, as a table: the real one is made in
// cuda_driver.h, the mocked one of the tests (mocked_device.h) fails, delays and watches.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "device/memory.h"

namespace pulse {

// Codes that decide something (of cudaError_t; cuda_driver.cc compares them).
inline constexpr DeviceCode kDeviceInvalidValue = 1;
inline constexpr DeviceCode kDeviceOutOfMemory = 2;
inline constexpr DeviceCode kDeviceNotReady = 600;

// Every call returns a DeviceCode; none waits for the device but `release` and `release_pinned`.
// The calling thread has selected the device (set_device). Outputs are written on success.
struct DeviceDriver {
  std::function<DeviceCode(int* count)> count_devices;
  std::function<DeviceCode(int device)> set_device;   // for the calling thread
  std::function<DeviceCode(int* device)> get_device;  // what it has selected
  std::function<DeviceCode(void** at, uint64_t bytes)> allocate;
  std::function<DeviceCode(void* at)> release;
  std::function<DeviceCode(void** at, uint64_t bytes)> allocate_pinned;  // of the host
  std::function<DeviceCode(void* at)> release_pinned;
  std::function<DeviceCode(DeviceStream* stream)> create_stream;
  std::function<DeviceCode(DeviceStream stream)> destroy_stream;
  std::function<DeviceCode(DeviceEvent* event)> create_event;
  std::function<DeviceCode(DeviceEvent event)> destroy_event;
  // Enqueued on the stream: the event has happened when all work before it is done.
  std::function<DeviceCode(DeviceEvent event, DeviceStream stream)> record;
  // kDeviceNotReady until it has happened; success for one never recorded.
  std::function<DeviceCode(DeviceEvent event)> query;
  // Enqueued: what follows on `stream` waits for the event.
  std::function<DeviceCode(DeviceStream stream, DeviceEvent event)> wait;
  // Enqueued. Host addresses are pinned memory.
  std::function<DeviceCode(void* to, const void* from, uint64_t bytes, DeviceStream stream)> copy;
  std::function<DeviceCode(void* at, uint8_t value, uint64_t bytes, DeviceStream stream)> fill;
  std::function<std::string(DeviceCode code)> describe;
};

// OK for 0. Else `call` and the runtime's own text, as kResourceExhausted when memory ran out,
// kInternal when we misused the runtime, kUnavailable for the rest: device lost, kernel fault.
Status DeviceStatus(const DeviceDriver& driver, DeviceCode code, std::string_view call);

}  // namespace pulse
