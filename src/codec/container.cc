#include "codec/container.h"

#include <algorithm>
#include <cstring>

namespace pulse {
namespace {

// offset  bytes  field
//      0      3  magic "PLS"
//      3      1  format version
//      4      1  codec
//      5      1  word_bytes
//      6      2  zero
//      8      8  elements
//     16      8  blocks = ceil(elements / kContainerBlockElements)
//     24      8  per block: u32 entries, u32 payload bytes
constexpr uint8_t kMagic[3] = {'P', 'L', 'S'};
constexpr uint8_t kFormatVersion = 1;
constexpr size_t kHeaderBytes = 24;
constexpr size_t kDirectoryEntryBytes = 8;

// Unlike (elements + block - 1) / block, right for any 64-bit claim.
uint64_t BlocksFor(uint64_t elements) {
  return elements / kContainerBlockElements + (elements % kContainerBlockElements != 0);
}

bool IsKnown(CodecId codec) {
  return codec == CodecId::kWordDeltaFast || codec == CodecId::kSparseUpdateFast ||
         codec == CodecId::kWordDeltaSmall || codec == CodecId::kSparseUpdateSmall;
}

StatusOr<ContainerHeader> ParseHeader(ByteView bytes) {
  if (bytes.size() < kHeaderBytes) {
    return DataLoss("{} bytes, but the header alone takes {}", bytes.size(), kHeaderBytes);
  }
  if (!std::equal(std::begin(kMagic), std::end(kMagic), bytes.begin())) {
    return DataLoss("does not begin with the magic bytes \"PLS\"");
  }
  if (bytes[3] != kFormatVersion) {
    return DataLoss("format version {}, but this reader knows only {}", bytes[3], kFormatVersion);
  }
  const ContainerHeader header{.codec = CodecId{bytes[4]},
                               .word_bytes = bytes[5],
                               .elements = LoadLittle<uint64_t>(&bytes[8])};
  if (!IsKnown(header.codec)) return DataLoss("unknown codec {}", bytes[4]);
  if (header.word_bytes != 1 && header.word_bytes != 2 && header.word_bytes != 4 &&
      header.word_bytes != 8) {
    return DataLoss("words of {} bytes, expected 1, 2, 4 or 8", header.word_bytes);
  }
  if (bytes[6] != 0 || bytes[7] != 0) return DataLoss("reserved bytes 6 and 7 are not zero");
  const uint64_t blocks = LoadLittle<uint64_t>(&bytes[16]);
  if (blocks != BlocksFor(header.elements)) {
    return DataLoss("{} blocks, but {} elements make {}", blocks, header.elements,
                    BlocksFor(header.elements));
  }
  if (blocks > (bytes.size() - kHeaderBytes) / kDirectoryEntryBytes) {
    return DataLoss("{} bytes end inside the directory of {} blocks", bytes.size(), blocks);
  }
  return header;
}

uint64_t ElementsOfBlock(uint64_t elements, uint64_t b) {
  return std::min(kContainerBlockElements, elements - b * kContainerBlockElements);
}

template <typename T>
void StoreLittle(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(value));
}

const uint8_t* DirectoryEntry(const uint8_t* container, uint64_t b) {
  return container + kHeaderBytes + b * kDirectoryEntryBytes;
}

}  // namespace

uint64_t ContainerHeadBytes(uint64_t elements) {
  return kHeaderBytes + BlocksFor(elements) * kDirectoryEntryBytes;
}

Bytes ContainerHead(const ContainerHeader& header, std::span<const uint32_t> entries,
                    std::span<const uint32_t> payload_bytes) {
  Bytes head = ContainerWriter(header).Finish();
  for (size_t b = 0; b < entries.size(); ++b) {
    uint8_t* const entry = head.data() + kHeaderBytes + b * kDirectoryEntryBytes;
    StoreLittle(entries[b], entry);
    StoreLittle(payload_bytes[b], entry + 4);
  }
  return head;
}

ContainerWriter::ContainerWriter(const ContainerHeader& header) {
  const uint64_t blocks = BlocksFor(header.elements);
  bytes_.resize(ContainerHeadBytes(header.elements));
  std::copy(std::begin(kMagic), std::end(kMagic), bytes_.begin());
  bytes_[3] = kFormatVersion;
  bytes_[4] = static_cast<uint8_t>(header.codec);
  bytes_[5] = header.word_bytes;
  StoreLittle(header.elements, &bytes_[8]);
  StoreLittle(blocks, &bytes_[16]);
  payload_start_ = bytes_.size();
}

void ContainerWriter::CloseBlock(uint32_t entries) {
  uint8_t* entry = bytes_.data() + kHeaderBytes + next_block_ * kDirectoryEntryBytes;
  StoreLittle(entries, entry);
  StoreLittle(static_cast<uint32_t>(bytes_.size() - payload_start_), entry + 4);
  ++next_block_;
  payload_start_ = bytes_.size();
}

StatusOr<ContainerView> ContainerView::ParseHead(ByteView head, uint64_t total_bytes) {
  ContainerView view;
  view.bytes_ = head;
  PULSE_ASSIGN_OR_RETURN(view.header_, ParseHeader(head));
  const uint64_t blocks = BlocksFor(view.header_.elements);
  view.offsets_.reserve(blocks + 1);
  uint64_t offset = view.offsets_[0] = ContainerHeadBytes(view.header_.elements);
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint8_t* entry = DirectoryEntry(head.data(), b);
    const auto entries = LoadLittle<uint32_t>(entry);
    const auto payload_bytes = LoadLittle<uint32_t>(entry + 4);
    const uint64_t elements = ElementsOfBlock(view.header_.elements, b);
    if (entries > elements) {
      return DataLoss("block {} claims {} entries over {} elements", b, entries, elements);
    }
    if ((entries == 0) != (payload_bytes == 0)) {
      return DataLoss("block {} has {} entries in {} bytes", b, entries, payload_bytes);
    }
    if (payload_bytes > total_bytes - offset) {
      return DataLoss("block {} of {} bytes reaches past the end of {} bytes", b, payload_bytes,
                      total_bytes);
    }
    offset += payload_bytes;
    view.offsets_.push_back(offset);
    view.entries_ += entries;
  }
  if (offset != total_bytes) {
    return DataLoss("{} bytes behind the last block", total_bytes - offset);
  }
  return view;
}

ContainerView::Block ContainerView::block(uint64_t b) const {
  const bool is_here = offsets_.back() <= bytes_.size();
  return {
      .first = b * kContainerBlockElements,
      .elements = ElementsOfBlock(header_.elements, b),
      .entries = LoadLittle<uint32_t>(DirectoryEntry(bytes_.data(), b)),
      .payload = is_here ? bytes_.subspan(offsets_[b], offsets_[b + 1] - offsets_[b]) : ByteView()};
}

Status ContainerView::Expect(const ContainerHeader& expected) const {
  if (header_.codec != expected.codec) {
    return DataLoss("codec {}, expected {}", static_cast<int>(header_.codec),
                    static_cast<int>(expected.codec));
  }
  if (header_.word_bytes != expected.word_bytes) {
    return DataLoss("words of {} bytes, expected {}", header_.word_bytes, expected.word_bytes);
  }
  if (header_.elements != expected.elements) {
    return DataLoss("{} elements, expected {}", header_.elements, expected.elements);
  }
  return OkStatus();
}

}  // namespace pulse
