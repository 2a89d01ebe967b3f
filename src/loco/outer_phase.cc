#include "loco/outer_phase.h"

#include <algorithm>
#include <utility>

namespace pulse::loco {

OuterPhase::OuterPhase(const OuterOptions& options, uint32_t trainers,
                       const kernels::KernelTable& kernels, std::vector<ViewRun> runs)
    : scalars_{.learning_rate = static_cast<float>(options.learning_rate),
               .momentum = static_cast<float>(options.momentum),
               .trainers = static_cast<float>(trainers)},
      kernels_(kernels),
      runs_(std::move(runs)),
      comparer_(kernels),
      before_(ViewComparer::kPieceElements) {}

uint64_t OuterPhase::Step(std::span<const float> sum, std::span<float> momentum,
                          std::span<float> theta) {
  uint64_t changed = 0;
  // The view is compared piece by piece, so that no second copy of theta is needed.
  ForEachPiece(runs_, 0, theta.size(), ViewComparer::kPieceElements,
               [&](kernels::GateView view, uint64_t begin, uint64_t end) {
                 const auto before = std::span(before_).first(end - begin);
                 const auto piece = theta.subspan(begin, end - begin);
                 std::copy(piece.begin(), piece.end(), before.begin());
                 kernels_.outer_step(scalars_, sum.subspan(begin, end - begin),
                                     momentum.subspan(begin, end - begin), piece);
                 changed += comparer_.CountChanged(view, before, piece);
               });
  return changed;
}

uint64_t OuterPhase::CountChanged(std::span<const float> before, std::span<const float> after) {
  uint64_t changed = 0;
  ForEachPiece(runs_, 0, after.size(), ViewComparer::kPieceElements,
               [&](kernels::GateView view, uint64_t begin, uint64_t end) {
                 changed += comparer_.CountChanged(view, before.subspan(begin, end - begin),
                                                   after.subspan(begin, end - begin));
               });
  return changed;
}

}  // namespace pulse::loco
