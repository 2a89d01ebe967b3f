// What the bytes of every codec begin with: which codec it is, over how many elements, and where
// each independent block lies. docs/format.md has the layout.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// Positions inside a block fit 20 bits. Much smaller blocks would pay for tables of their own, much
// larger ones would leave cores idle on small tensors.
inline constexpr uint64_t kContainerBlockElements = uint64_t{1} << 20;

// A new codec takes a new number; numbers are never reused.
enum class CodecId : uint8_t {
  kWordDeltaFast = 1,
  kSparseUpdateFast = 2,
  kWordDeltaSmall = 3,
  kSparseUpdateSmall = 4,
};

struct ContainerHeader {
  CodecId codec = CodecId::kWordDeltaFast;
  uint8_t word_bytes = 0;  // 1, 2, 4 or 8
  uint64_t elements = 0;   // words of the array, not bytes
};

// How many bytes lie before the first payload.
uint64_t ContainerHeadBytes(uint64_t elements);

// These bytes, for payloads that are put together elsewhere: of each block its entries and bytes.
Bytes ContainerHead(const ContainerHeader& header, std::span<const uint32_t> entries,
                    std::span<const uint32_t> payload_bytes);

// Writes the header and a directory of empty blocks, then one payload after the other:
//   append block 0's payload to bytes(), CloseBlock(its entries), append block 1's, ..., Finish().
class ContainerWriter {
 public:
  explicit ContainerWriter(const ContainerHeader& header);

  Bytes& bytes() { return bytes_; }

  // What was appended since the last call is the next block's payload. No entries, no payload.
  void CloseBlock(uint32_t entries);

  // After the last CloseBlock. The writer is spent.
  Bytes Finish() { return std::move(bytes_); }

 private:
  Bytes bytes_;
  size_t next_block_ = 0;
  size_t payload_start_ = 0;
};

// A parsed view of somebody's bytes, which must outlive it. The layout has been checked: the
// payloads lie inside the bytes, fill them exactly, and no block claims more entries than it has
// elements. What is inside the payloads has not.
class ContainerView {
 public:
  struct Block {
    uint64_t first = 0;     // its first element
    uint64_t elements = 0;  // 1 .. kContainerBlockElements
    uint32_t entries = 0;   // 0 .. elements
    ByteView payload;       // empty iff entries is 0, or only the head is here
  };

  // kDataLoss for any layout that no writer makes. Memory: 8 bytes per block that the bytes hold.
  static StatusOr<ContainerView> Parse(ByteView bytes) { return ParseHead(bytes, bytes.size()); }
  // The same from the first ContainerHeadBytes alone, of total_bytes: the payloads lie elsewhere.
  static StatusOr<ContainerView> ParseHead(ByteView head, uint64_t total_bytes);

  const ContainerHeader& header() const { return header_; }
  uint64_t blocks() const { return offsets_.size() - 1; }
  uint64_t entries() const { return entries_; }
  Block block(uint64_t b) const;  // b < blocks()
  // Where each payload begins in the whole, and where the last one ends.
  std::span<const uint64_t> payload_offsets() const { return offsets_; }

  // kDataLoss unless the header is `expected`.
  Status Expect(const ContainerHeader& expected) const;

 private:
  ByteView bytes_;
  ContainerHeader header_;
  uint64_t entries_ = 0;
  std::vector<uint64_t> offsets_ = {0};
};

}  // namespace pulse
