#include "codec/gaps.h"

#include <algorithm>

namespace pulse {
namespace {

constexpr uint8_t kSkip = 255;

}  // namespace

void EncodeGaps(std::span<const uint32_t> positions, Bytes& gaps) {
  gaps.resize(positions.empty() ? 0 : MaxGapBytes(positions.size(), positions.back() + 1));
  uint8_t* out = gaps.data();
  uint32_t next = 0;  // the first position that the next entry can have
  for (const uint32_t position : positions) {
    uint32_t gap = position - next;
    for (; gap >= kSkip; gap -= kSkip) *out++ = kSkip;
    *out++ = static_cast<uint8_t>(gap);
    next = position + 1;
  }
  gaps.resize(static_cast<size_t>(out - gaps.data()));
}

Status DecodeGaps(ByteView gaps, uint64_t elements, std::span<uint32_t> positions) {
  const auto skips = static_cast<size_t>(std::count(gaps.begin(), gaps.end(), kSkip));
  if (gaps.size() - skips != positions.size()) {
    return DataLoss("the gaps hold {} entries, expected {}", gaps.size() - skips, positions.size());
  }
  if (gaps.empty()) return OkStatus();
  if (gaps.back() == kSkip) return DataLoss("the gaps end inside a gap");
  // No branch in the loop: every byte writes a position, a skip's is overwritten by the next byte.
  // Below 2^32: at most 2^20 + 4112 bytes, 256 each.
  uint32_t next = 0;
  size_t entry = 0;
  for (const uint8_t byte : gaps) {
    const uint32_t ends = byte != kSkip;
    positions[entry] = next + byte;
    next += byte + ends;
    entry += ends;
  }
  // They ascend by construction, so the last one speaks for all.
  if (positions.back() >= elements) {
    return DataLoss("position {} in a block of {} elements", positions.back(), elements);
  }
  return OkStatus();
}

}  // namespace pulse
