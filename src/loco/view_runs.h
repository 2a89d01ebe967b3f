// The flat array as runs of elements whose view has one dtype: what the gate and the figures on the
// view work along.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/schema.h"
#include "core/status.h"
#include "kernels/kernels.h"

namespace pulse::loco {

// Elements [begin, end); view is kBF16 or kF32.
struct ViewRun {
  kernels::GateView view;
  uint64_t begin;
  uint64_t end;
  friend bool operator==(const ViewRun&, const ViewRun&) = default;
};

// Ascending, without gaps or empty runs, neighbours of different view. kUnimplemented names a
// tensor whose view is neither BF16 nor F32.
StatusOr<std::vector<ViewRun>> ViewRunsOf(const ModelSchema& schema);

// The runs of elements [begin, end), numbered from 0.
std::vector<ViewRun> CutRuns(std::span<const ViewRun> runs, uint64_t begin, uint64_t end);

// Calls visit(view, begin, end) for the parts of `runs` that lie in [begin, end), cut into pieces
// of at most max_elements.
template <typename Visit>
void ForEachPiece(std::span<const ViewRun> runs, uint64_t begin, uint64_t end,
                  uint64_t max_elements, Visit visit) {
  for (const ViewRun& run : runs) {
    const uint64_t stop = run.end < end ? run.end : end;
    for (uint64_t at = run.begin > begin ? run.begin : begin; at < stop;) {
      const uint64_t length = stop - at < max_elements ? stop - at : max_elements;
      visit(run.view, at, at + length);
      at += length;
    }
  }
}

// Counts elements whose views differ, as bits. Holds its scratch; not thread-safe.
class ViewComparer {
 public:
  // Elements compared at a time: scratch of 12 bytes each, 384 KiB, stays in L2.
  static constexpr uint64_t kPieceElements = uint64_t{1} << 15;

  explicit ViewComparer(const kernels::KernelTable& kernels);

  // before, after: equal lengths, at most kPieceElements.
  uint64_t CountChanged(kernels::GateView view, std::span<const float> before,
                        std::span<const float> after);

 private:
  kernels::KernelTable kernels_;
  std::vector<uint16_t> before_, after_;
  std::vector<uint32_t> positions_;
};

}  // namespace pulse::loco
