// Memory, streams and events of a device with one owner each. The driver must outlive them.
#pragma once

#include <utility>

#include "core/bytes.h"
#include "device/driver.h"

namespace pulse {

// One resource of a kind: Traits makes it, names the call, and gives it back.
template <typename Traits>
class DeviceResource {
 public:
  using Handle = typename Traits::Handle;

  DeviceResource() = default;
  DeviceResource(DeviceResource&& other) noexcept { *this = std::move(other); }
  DeviceResource& operator=(DeviceResource&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // An error in giving back has nobody who could act on it: the device is then lost anyway.
  ~DeviceResource() {
    if (driver_) Traits::Release(*driver_, handle_);
  }

  // bytes: of memory; streams and events have none.
  static StatusOr<DeviceResource> Open(const DeviceDriver& driver, uint64_t bytes = 0) {
    DeviceResource resource;
    PULSE_RETURN_IF_ERROR(
        DeviceStatus(driver, Traits::Make(driver, &resource.handle_, bytes), Traits::kCall));
    resource.driver_ = &driver;
    resource.bytes_ = bytes;
    return resource;
  }

  Handle get() const { return handle_; }
  DeviceSpan<uint8_t> span() const { return {static_cast<uint8_t*>(handle_), bytes_}; }
  ByteSpan host() const { return {static_cast<uint8_t*>(handle_), bytes_}; }

 private:
  const DeviceDriver* driver_ = nullptr;
  Handle handle_ = {};
  uint64_t bytes_ = 0;
};

struct DeviceMemoryTraits {
  using Handle = void*;
  static constexpr const char* kCall = "allocating device memory";
  static DeviceCode Make(const DeviceDriver& d, void** at, uint64_t n) { return d.allocate(at, n); }
  static void Release(const DeviceDriver& d, void* at) { d.release(at); }
};
struct PinnedMemoryTraits {
  using Handle = void*;
  static constexpr const char* kCall = "allocating pinned host memory";
  static DeviceCode Make(const DeviceDriver& d, void** at, uint64_t n) {
    return d.allocate_pinned(at, n);
  }
  static void Release(const DeviceDriver& d, void* at) { d.release_pinned(at); }
};
struct StreamTraits {
  using Handle = DeviceStream;
  static constexpr const char* kCall = "creating a stream";
  static DeviceCode Make(const DeviceDriver& d, DeviceStream* s, uint64_t) {
    return d.create_stream(s);
  }
  static void Release(const DeviceDriver& d, DeviceStream s) { d.destroy_stream(s); }
};
struct EventTraits {
  using Handle = DeviceEvent;
  static constexpr const char* kCall = "creating an event";
  static DeviceCode Make(const DeviceDriver& d, DeviceEvent* e, uint64_t) {
    return d.create_event(e);
  }
  static void Release(const DeviceDriver& d, DeviceEvent e) { d.destroy_event(e); }
};

using DeviceBuffer = DeviceResource<DeviceMemoryTraits>;  // span()
using PinnedBuffer = DeviceResource<PinnedMemoryTraits>;  // host()
using OwnedStream = DeviceResource<StreamTraits>;         // get()
using OwnedEvent = DeviceResource<EventTraits>;           // get()

}  // namespace pulse
