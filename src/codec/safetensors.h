// The header of a safetensors file <-> tensor specs and byte ranges. Pure: no I/O.
//
// A file is a little-endian u64 N, N bytes of JSON that start with '{' and may end in spaces, then
// the data, which the tensors fill without holes or overlap from its first byte to its last.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/schema.h"
#include "core/status.h"

namespace pulse {

inline constexpr uint64_t kSafetensorsPrefixBytes = 8;
// The reference library's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
// Far above any real tensor (NumPy stops at 64), so that a header can't ask for unbounded shapes.
inline constexpr size_t kMaxSafetensorsRank = 64;

struct SafetensorsEntry {
  TensorSpec spec;
  uint64_t begin = 0;  // bytes, relative to the start of the data
  uint64_t end = 0;
  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the data
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  // of the data in the file: 8 + N
  uint64_t data_bytes = 0;

  uint64_t file_bytes() const { return data_offset + data_bytes; }
};

// N, from the first 8 bytes of a file of `file_bytes` bytes. kDataLoss when the file is too short
// for it or N is above the limit.
StatusOr<uint64_t> SafetensorsHeaderBytes(ByteView prefix, uint64_t file_bytes);

// `json`: the N bytes behind the prefix. kDataLoss for anything the format does not allow:
// duplicate or unknown keys, offsets with holes, shapes that disagree with byte counts, a file that
// does not end at its last tensor. kUnimplemented for an element type that DType lacks. Time and
// memory are bounded by a small multiple of json.size().
StatusOr<SafetensorsHeader> ParseSafetensorsHeader(ByteView json, uint64_t file_bytes);

// The order in which our writer lays tensors out: widest elements first, then by name, as the
// reference library does, so that every tensor is aligned to its element. Indices into `specs`.
std::vector<size_t> SafetensorsOrder(std::span<const TensorSpec> specs);

// Prefix and JSON, ready to be written before the data; `in_order` stands in the order of the data.
// One spelling only: "__metadata__" first (absent when empty), keys in byte order, no white space,
// padded with spaces to a multiple of 8. kInvalidArgument for a name that is not UTF-8, appears
// twice or is
// "__metadata__"; kResourceExhausted above the limit.
StatusOr<Bytes> WriteSafetensorsHeader(std::span<const TensorSpec> in_order,
                                       const std::map<std::string, std::string>& metadata);

}  // namespace pulse
