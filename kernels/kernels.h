// One body of every kernel, chosen once at start and passed to whoever works on arrays.
#pragma once

#include <string_view>

#include "core/status.h"
#include "kernels/adamw/adamw.h"
#include "kernels/adamw_view/adamw_view.h"
#include "kernels/apply/apply.h"
#include "kernels/cast_view/cast_view.h"
#include "kernels/class_bits/class_bits.h"
#include "kernels/class_rank/class_rank.h"
#include "kernels/diff/diff.h"
#include "kernels/gate/gate.h"
#include "kernels/grid_values/grid_values.h"
#include "kernels/outer_step/outer_step.h"
#include "kernels/reduce/reduce.h"

namespace pulse::kernels {

struct KernelTable {
  std::string_view name;
  AdamWFn adamw;
  AdamWViewFn adamw_view;
  ApplyFn apply;
  CastToBF16Fn cast_to_bf16;
  ClassBitsBody class_bits;
  ClassRankBody class_rank;
  DiffFn diff;
  GateFn gate;
  GridValuesBody grid_values;
  OuterStepFn outer_step;
  ReduceBody reduce;
};

// "reference", "simd", or "auto" (the fastest present); kInvalidArgument lists what there is.
// kFailedPrecondition if this process breaks the arithmetic contract (CheckArithmetic).
StatusOr<KernelTable> ChooseKernels(std::string_view name);

// The instruction set that the simd bodies run with on this machine: "AVX3_ZEN4", "AVX2", "NEON".
std::string_view SimdTarget();

}  // namespace pulse::kernels
