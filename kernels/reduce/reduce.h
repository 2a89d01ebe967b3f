// Sums of trainers' contributions, in an order that the caller fixes: the building blocks of the
// one canonical sum (docs/design.md). Both start from what `sum` holds, so call order is sum order.
// A NaN result is stored as the canonical NaN (arithmetic.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pulse::kernels {

// sum[positions[i]] += values[i]. Positions strictly ascending and in range (the caller has
// checked).
using AddSparseFn = void (*)(std::span<float> sum, std::span<const uint32_t> positions,
                             std::span<const float> values);

// sum[i] += addend[i]. Equal lengths, no overlap, any alignment.
using AddDenseFn = void (*)(std::span<float> sum, std::span<const float> addend);

// sum[i] = sum[i] / trainers: a division, not a product with the reciprocal.
using MeanFn = void (*)(std::span<float> sum, float trainers);

struct ReduceBody {
  std::string_view name;
  AddSparseFn add_sparse;
  AddDenseFn add_dense;
  MeanFn mean;
};

// The reference first, the fastest last.
std::span<const ReduceBody> ReduceBodies();

}  // namespace pulse::kernels
