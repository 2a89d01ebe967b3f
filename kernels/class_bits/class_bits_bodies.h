// The bodies of class_bits.h, for the list and the tests alone.
#pragma once

#include "kernels/class_bits/class_bits.h"

namespace pulse::kernels {

void SplitByClassRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                     const uint64_t* chosen, const ClassBits& of_class);
void JoinClassesRef(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                    const ClassBits& of_class, uint64_t* chosen);
size_t ListOnesRef(std::span<const uint64_t> words, uint32_t* ones);
void SplitByClassSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                      const uint64_t* chosen, const ClassBits& of_class);
void JoinClassesSimd(std::span<const ClassTile> tiles, std::span<const TileCounts> counts,
                     const ClassBits& of_class, uint64_t* chosen);
size_t ListOnesSimd(std::span<const uint64_t> words, uint32_t* ones);

}  // namespace pulse::kernels
