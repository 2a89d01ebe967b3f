// Values of sparse updates taken apart against their theta, and put together, many at a time: the
// maths of kernels/sparse_small/grid_value.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pulse::kernels {

// plain: the plain bits in the lowest 22, how many of them are written from bit kPlainCountShift
// on, and kOffGridFlag where the value is not on theta's grid: then all are written.
inline constexpr unsigned kPlainCountShift = 24;
inline constexpr uint32_t kOffGridFlag = uint32_t{1} << 31;

// Of each value: its symbol and its plain bits. theta, values: as bits; equal lengths. coarser: 0
// to 16.
using SplitValuesFn = void (*)(unsigned coarser, std::span<const uint32_t> theta,
                               std::span<const uint32_t> values, uint32_t* symbols,
                               uint32_t* plain);

// The inverse for values on the grid. tails: the plain bits as the highest ones of 32, whatever
// follows them. Overwrites `values`, as many as there are thetas.
using JoinValuesFn = void (*)(unsigned coarser, std::span<const uint32_t> theta,
                              const uint32_t* symbols, const uint32_t* tails, uint32_t* values);

struct GridValuesBody {
  std::string_view name;
  SplitValuesFn split;
  JoinValuesFn join;
};

// Every body gives the same output as the reference. The reference first, the fastest last.
std::span<const GridValuesBody> GridValuesBodies();

}  // namespace pulse::kernels
