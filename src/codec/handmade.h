// For tests and fuzzers: coded bytes made by hand from plain sections, and taken apart again.
#pragma once

#include <vector>

#include "codec/container.h"
#include "codec/sections.h"

namespace pulse::handmade {

struct Block {
  uint32_t entries = 0;
  std::vector<Bytes> sections;  // before zstd

  bool operator==(const Block&) const = default;
};

inline Bytes Pack(const ContainerHeader& header, const std::vector<Block>& blocks) {
  ContainerWriter writer(header);
  SectionWriter sections;
  for (const Block& block : blocks) {
    for (const Bytes& plain : block.sections) sections.Write(plain, writer.bytes());
    writer.CloseBlock(block.entries);
  }
  return writer.Finish();
}

// The inverse of Pack; `bytes` must come from an encoder or have passed its decoder.
inline std::vector<Block> Unpack(ByteView bytes) {
  const ContainerView view = ContainerView::Parse(bytes).value();
  SectionReader reader;
  std::vector<Block> blocks;
  for (uint64_t b = 0; b < view.blocks(); ++b) {
    blocks.push_back({.entries = view.block(b).entries, .sections = {}});
    reader.Start(view.block(b).payload);
    while (!reader.Finish().ok()) {
      const ByteView plain = reader.Read(1, 2 * kContainerBlockElements).value();
      blocks.back().sections.emplace_back(plain.begin(), plain.end());
    }
  }
  return blocks;
}

}  // namespace pulse::handmade
