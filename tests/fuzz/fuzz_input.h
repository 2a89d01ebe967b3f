// Takes a fuzzer's input apart, from the front; missing bytes are zeros.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codec/handmade.h"
#include "core/bytes.h"

namespace pulse::fuzz {

inline void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}

  template <std::integral T>
  T Take() {
    T value{};
    const ByteView bytes = TakeBytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  ByteView TakeBytes(size_t count) {
    const ByteView bytes = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }

  ByteView TakeRest() { return TakeBytes(rest_.size()); }

  // Entries, and then sections until the input ends: so that mutations reach what lies behind zstd.
  handmade::Block TakeBlock() {
    handmade::Block block{.entries = Take<uint16_t>(), .sections = {}};
    while (!rest_.empty()) {
      const ByteView section = TakeBytes(Take<uint8_t>());
      block.sections.emplace_back(section.begin(), section.end());
    }
    return block;
  }

 private:
  ByteView rest_;
};

}  // namespace pulse::fuzz
