// Element types, named as safetensors names them.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/status.h"

namespace pulse {

enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
};

// Bytes per element: 1, 2, 4 or 8.
size_t SizeOf(DType dtype);

// "BF16", "F8_E4M3", ...
std::string_view NameOf(DType dtype);

// kUnimplemented for a name that is not in the list above (sub-byte types, for one).
StatusOr<DType> DTypeFromName(std::string_view name);

}  // namespace pulse
