// Memory and streams of an accelerator, as types: host code can name them, and cannot read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pulse {

// size elements at `data`, an address on the device. A value; owns nothing.
template <typename T>
struct DeviceSpan {
  T* data = nullptr;
  uint64_t size = 0;

  constexpr DeviceSpan() = default;
  constexpr DeviceSpan(T* at, uint64_t elements) : data(at), size(elements) {}
  // As for std::span, what may be written may be read.
  template <typename U>
  requires std::is_same_v<const U, T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr DeviceSpan(DeviceSpan<U> other) : data(other.data), size(other.size) {}

  constexpr uint64_t size_bytes() const { return size * sizeof(T); }
  constexpr DeviceSpan first(uint64_t elements) const { return {data, elements}; }
  constexpr DeviceSpan subspan(uint64_t offset, uint64_t elements) const {
    return {data + offset, elements};
  }
};

// An ordered queue of device work (a cudaStream_t). Never the default stream: null is "none".
struct DeviceStream {
  void* handle = nullptr;
};

// A point in a stream (a cudaEvent_t).
struct DeviceEvent {
  void* handle = nullptr;
};

// What a call of the device's runtime returned: 0 for success (a cudaError_t). DeviceStatus in
// device/driver.h makes a Status of it.
using DeviceCode = int;

}  // namespace pulse
