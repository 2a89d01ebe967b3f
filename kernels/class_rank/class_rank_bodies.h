// The bodies of class_rank.h, for the list and the tests alone.
#pragma once

#include "kernels/class_rank/class_rank.h"

namespace pulse::kernels {

uint32_t ClassifyRef(ByteView words, const WordLayout& layout, uint32_t top,
                     std::span<ClassTile> tiles, std::span<TileCounts> counts);
void RankRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
             std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks);
void SelectRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
               const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions);

uint32_t ClassifySimd(ByteView words, const WordLayout& layout, uint32_t top,
                      std::span<ClassTile> tiles, std::span<TileCounts> counts);
void RankSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
              std::span<const uint32_t> positions, uint8_t* classes, uint32_t* ranks);
void SelectSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                const ClassCounts& entries, const uint32_t* ranks, uint32_t* positions);

}  // namespace pulse::kernels
