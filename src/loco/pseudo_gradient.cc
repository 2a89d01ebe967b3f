#include "loco/pseudo_gradient.h"

#include <algorithm>
#include <utility>

#include "loco/rounded_values.h"

namespace pulse::loco {
namespace {

// Elements gated at a time.
constexpr uint64_t kPieceElements = uint64_t{1} << 15;

}  // namespace

PseudoGradient::PseudoGradient(const kernels::KernelTable& kernels, Workers& workers,
                               std::vector<ViewRun> runs, bool open,
                               std::optional<unsigned> rounded)
    : kernels_(kernels),
      workers_(workers),
      runs_(std::move(runs)),
      open_(open),
      rounded_(rounded),
      blocks_(workers.threads()) {
  for (Block& block : blocks_) {
    // Not cleared: pages are touched as far as entries reach.
    block.positions = std::make_unique_for_overwrite<uint32_t[]>(kSparseBlockElements);
    block.values = std::make_unique_for_overwrite<float[]>(kSparseBlockElements);
  }
}

void PseudoGradient::GateBlock(uint64_t begin, uint64_t end, std::span<const float> theta,
                               std::span<const float> w, std::span<float> residual,
                               Block& block) const {
  block.entries = 0;
  ForEachPiece(runs_, begin, end, kPieceElements,
               [&](kernels::GateView view, uint64_t from, uint64_t to) {
                 const uint64_t length = to - from;
                 uint32_t* positions = block.positions.get() + block.entries;
                 float* values = block.values.get() + block.entries;
                 size_t passed = kernels_.gate(open_ ? kernels::GateView::kOpen : view,
                                               theta.subspan(from, length), w.subspan(from, length),
                                               residual.subspan(from, length), positions, values);
                 if (rounded_ && view == kernels::GateView::kBF16) {
                   passed = RoundValues(*rounded_, theta.subspan(from, length), {positions, passed},
                                        {values, passed}, residual.subspan(from, length));
                 }
                 const uint32_t shift = static_cast<uint32_t>(from - begin);
                 for (size_t i = 0; i < passed; ++i) positions[i] += shift;
                 block.entries += passed;
               });
}

SparseUpdate PseudoGradient::Gate(std::span<const float> theta, std::span<const float> w,
                                  std::span<float> residual) {
  SparseUpdate update;
  update.elements = theta.size();
  update.positions.reserve(last_entries_);
  update.values.reserve(last_entries_);
  const uint64_t count = SparseBlocksFor(theta.size());
  for (uint64_t first = 0; first < count; first += blocks_.size()) {
    const uint64_t now = std::min<uint64_t>(blocks_.size(), count - first);
    workers_.Run(now, [&](size_t i) {
      const uint64_t begin = (first + i) * kSparseBlockElements;
      GateBlock(begin, std::min<uint64_t>(begin + kSparseBlockElements, theta.size()), theta, w,
                residual, blocks_[i]);
    });
    for (uint64_t i = 0; i < now; ++i) {
      const Block& block = blocks_[i];
      update.positions.insert(update.positions.end(), block.positions.get(),
                              block.positions.get() + block.entries);
      update.values.insert(update.values.end(), block.values.get(),
                           block.values.get() + block.entries);
      update.starts.push_back(update.values.size());
    }
  }
  last_entries_ = update.entries();
  return update;
}

void PseudoGradient::Dense(std::span<const float> theta, std::span<const float> w,
                           std::span<float> s) {
  RunRanges(workers_, theta.size(), kPieceElements, [&](uint64_t from, uint64_t to) {
    std::vector<float> no_residual(kPieceElements);  // the open gate leaves it 0
    std::vector<uint32_t> positions(kPieceElements);
    for (uint64_t begin = from; begin < to; begin += kPieceElements) {
      const uint64_t length = std::min<uint64_t>(kPieceElements, to - begin);
      kernels_.gate(kernels::GateView::kOpen, theta.subspan(begin, length),
                    w.subspan(begin, length), std::span(no_residual).first(length),
                    positions.data(), s.data() + begin);
    }
  });
}

}  // namespace pulse::loco
