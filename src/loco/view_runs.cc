#include "loco/view_runs.h"

#include <algorithm>

#include "core/bytes.h"

namespace pulse::loco {
namespace {

StatusOr<kernels::GateView> ViewOf(const TensorSpec& spec) {
  if (spec.dtype == DType::kBF16) return kernels::GateView::kBF16;
  if (spec.dtype == DType::kF32) return kernels::GateView::kF32;
  return Unimplemented("tensor \"{}\" has the view {}; trained tensors need BF16 or F32", spec.name,
                       NameOf(spec.dtype));
}

}  // namespace

StatusOr<std::vector<ViewRun>> ViewRunsOf(const ModelSchema& schema) {
  std::vector<ViewRun> runs;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    PULSE_ASSIGN_OR_RETURN(const kernels::GateView view, ViewOf(schema.tensors()[i]));
    const uint64_t begin = schema.offset(i), end = schema.offset(i + 1);
    if (begin == end) continue;
    if (!runs.empty() && runs.back().view == view) {
      runs.back().end = end;
    } else {
      runs.push_back({view, begin, end});
    }
  }
  return runs;
}

std::vector<ViewRun> CutRuns(std::span<const ViewRun> runs, uint64_t begin, uint64_t end) {
  std::vector<ViewRun> cut;
  for (const ViewRun& run : runs) {
    const uint64_t from = std::max(run.begin, begin), to = std::min(run.end, end);
    if (from < to) cut.push_back({run.view, from - begin, to - begin});
  }
  return cut;
}

ViewComparer::ViewComparer(const kernels::KernelTable& kernels)
    : kernels_(kernels),
      before_(kPieceElements),
      after_(kPieceElements),
      positions_(kPieceElements) {}

uint64_t ViewComparer::CountChanged(kernels::GateView view, std::span<const float> before,
                                    std::span<const float> after) {
  if (view == kernels::GateView::kF32) {
    return kernels_.diff(AsBytes(before), AsBytes(after), sizeof(float), positions_.data());
  }
  const auto old_view = std::span(before_).first(before.size());
  const auto new_view = std::span(after_).first(after.size());
  kernels_.cast_to_bf16(before, old_view);
  kernels_.cast_to_bf16(after, new_view);
  return kernels_.diff(AsBytes(std::span<const uint16_t>(old_view)),
                       AsBytes(std::span<const uint16_t>(new_view)), sizeof(uint16_t),
                       positions_.data());
}

}  // namespace pulse::loco
