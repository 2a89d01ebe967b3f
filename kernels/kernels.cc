#include "kernels/kernels.h"

#include <hwy/highway.h>

#include "kernels/arithmetic/arithmetic.h"

namespace pulse::kernels {
namespace {

constexpr std::string_view kReference = "reference";
constexpr std::string_view kSimd = "simd";

// The body of that name; the reference where an operation has none (no faster one is known).
template <typename Body>
const Body& Find(std::span<const Body> bodies, std::string_view name) {
  for (const Body& body : bodies) {
    if (body.name == name) return body;
  }
  return bodies.front();
}

KernelTable TableOf(std::string_view name) {
  return {.name = name,
          .adamw = Find(AdamWBodies(), name).run,
          .adamw_view = Find(AdamWViewBodies(), name).run,
          .apply = Find(ApplyBodies(), name).run,
          .cast_to_bf16 = Find(CastToBF16Bodies(), name).run,
          .class_bits = Find(ClassBitsBodies(), name),
          .class_rank = Find(ClassRankBodies(), name),
          .diff = Find(DiffBodies(), name).run,
          .gate = Find(GateBodies(), name).run,
          .grid_values = Find(GridValuesBodies(), name),
          .outer_step = Find(OuterStepBodies(), name).run,
          .reduce = Find(ReduceBodies(), name)};
}

}  // namespace

StatusOr<KernelTable> ChooseKernels(std::string_view name) {
  PULSE_RETURN_IF_ERROR(CheckArithmetic());
  if (name == kReference) return TableOf(kReference);
  if (name == kSimd || name == "auto") return TableOf(kSimd);
  return InvalidArgument("no kernels named '{}'; there are reference, simd and auto", name);
}

std::string_view SimdTarget() {
  // Targets are bits, the best the lowest.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace pulse::kernels
