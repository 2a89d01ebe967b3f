// Byte buffers, and little-endian integers inside them.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace pulse {

static_assert(std::endian::native == std::endian::little,
              "weights and files are little-endian; a big-endian host is not supported");

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;
using ByteSpan = std::span<uint8_t>;

inline ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string_view AsText(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The object representation of an array of trivially copyable values.
template <typename T>
ByteView AsBytes(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

template <std::integral T>
void AppendLittle(T value, Bytes& out) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

// Reads at `from`, which must hold at least sizeof(T) bytes.
template <std::integral T>
T LoadLittle(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace pulse
