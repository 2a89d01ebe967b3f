// The bodies of reduce.h, for the list and the tests alone.
#pragma once

#include "kernels/reduce/reduce.h"

namespace pulse::kernels {

void AddSparseRef(std::span<float> sum, std::span<const uint32_t> positions,
                  std::span<const float> values);
void AddDenseRef(std::span<float> sum, std::span<const float> addend);
void MeanRef(std::span<float> sum, float trainers);
void AddSparseSimd(std::span<float> sum, std::span<const uint32_t> positions,
                   std::span<const float> values);
void AddDenseSimd(std::span<float> sum, std::span<const float> addend);
void MeanSimd(std::span<float> sum, float trainers);

}  // namespace pulse::kernels
