#include "loco/outer_phase.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace pulse::loco {

OuterPhase::OuterPhase(const OuterOptions& options, uint32_t trainers,
                       const kernels::KernelTable& kernels, Workers& workers,
                       std::vector<ViewRun> runs)
    : scalars_{.learning_rate = static_cast<float>(options.learning_rate),
               .momentum = static_cast<float>(options.momentum),
               .trainers = static_cast<float>(trainers)},
      kernels_(kernels),
      workers_(workers),
      runs_(std::move(runs)) {}

uint64_t OuterPhase::Step(std::span<const float> sum, std::span<float> momentum,
                          std::span<float> theta) {
  std::atomic<uint64_t> changed = 0;
  RunRanges(workers_, theta.size(), ViewComparer::kPieceElements, [&](uint64_t from, uint64_t to) {
    ViewComparer comparer(kernels_);
    std::vector<float> scratch(ViewComparer::kPieceElements);
    // The view is compared piece by piece, so that no second copy of theta is needed.
    ForEachPiece(runs_, from, to, ViewComparer::kPieceElements,
                 [&](kernels::GateView view, uint64_t begin, uint64_t end) {
                   const auto before = std::span(scratch).first(end - begin);
                   const auto piece = theta.subspan(begin, end - begin);
                   std::copy(piece.begin(), piece.end(), before.begin());
                   kernels_.outer_step(scalars_, sum.subspan(begin, end - begin),
                                       momentum.subspan(begin, end - begin), piece);
                   changed += comparer.CountChanged(view, before, piece);
                 });
  });
  return changed;
}

uint64_t OuterPhase::CountChanged(std::span<const float> before, std::span<const float> after) {
  std::atomic<uint64_t> changed = 0;
  RunRanges(workers_, after.size(), ViewComparer::kPieceElements, [&](uint64_t from, uint64_t to) {
    ViewComparer comparer(kernels_);
    ForEachPiece(runs_, from, to, ViewComparer::kPieceElements,
                 [&](kernels::GateView view, uint64_t begin, uint64_t end) {
                   changed += comparer.CountChanged(view, before.subspan(begin, end - begin),
                                                    after.subspan(begin, end - begin));
                 });
  });
  return changed;
}

}  // namespace pulse::loco
