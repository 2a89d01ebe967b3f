// Which codec a version travels in: set by the user, or the one with which followers are ready
// soonest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"
#include "sync/patch.h"

namespace pulse {

enum class CodecSetting { kFast, kSmall, kAuto };

// "fast", "small" or "auto"; kInvalidArgument lists them.
StatusOr<CodecSetting> CodecSettingFromName(std::string_view name);

// What one codec costs for a whole version.
struct CodecCost {
  double encode_s = 0;
  double decode_s = 0;  // with apply, on one follower
  double bytes = 0;
};

struct CodecCosts {
  CodecCost fast;
  CodecCost small;
  double link_bytes_per_s = 0;  // to the bucket; from there to a follower the same is assumed
};

struct CodecDecision {
  RangeCodec codec = RangeCodec::kSmall;
  std::string reason;
};

// The codec of which encode + put + fetch + decode take less time. Small where a time, the link or
// both sizes are not known (<= 0): bytes are what networks lack. A pure function.
CodecDecision ChooseCodec(const CodecCosts& costs);

}  // namespace pulse
