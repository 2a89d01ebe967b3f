// The bodies of class_rank.h, for the list and the tests alone.
#pragma once

#include "kernels/class_rank/class_rank.h"

namespace pulse::kernels {

void ClassifyRef(std::span<const float> theta, std::span<uint8_t> classes);
void ClassifyWordsRef(ByteView words, const WordLayout& layout, uint32_t top,
                      std::span<uint8_t> classes);
ClassCounts RankRef(std::span<const uint8_t> classes, std::span<const uint32_t> positions,
                    uint32_t* ranks);
void SelectRef(std::span<const uint8_t> classes, const ClassCounts& entries, const uint32_t* ranks,
               uint32_t* positions);

void ClassifySimd(std::span<const float> theta, std::span<uint8_t> classes);
void ClassifyWordsSimd(ByteView words, const WordLayout& layout, uint32_t top,
                       std::span<uint8_t> classes);
ClassCounts RankSimd(std::span<const uint8_t> classes, std::span<const uint32_t> positions,
                     uint32_t* ranks);
void SelectSimd(std::span<const uint8_t> classes, const ClassCounts& entries, const uint32_t* ranks,
                uint32_t* positions);

}  // namespace pulse::kernels
