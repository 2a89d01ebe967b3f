#include "loco/pseudo_gradient.h"

#include <algorithm>
#include <utility>

#include "loco/rounded_values.h"

namespace pulse::loco {
namespace {

// Elements gated at a time: 8 bytes of output each, 256 KiB, stay in L2 until they are appended.
constexpr uint64_t kPieceElements = uint64_t{1} << 15;

}  // namespace

PseudoGradient::PseudoGradient(const kernels::KernelTable& kernels, std::vector<ViewRun> runs,
                               bool open, std::optional<unsigned> rounded)
    : kernels_(kernels),
      runs_(std::move(runs)),
      open_(open),
      rounded_(rounded),
      positions_(kPieceElements),
      values_(kPieceElements) {}

void PseudoGradient::GateBlock(uint64_t begin, uint64_t end, std::span<const float> theta,
                               std::span<const float> w, std::span<float> residual,
                               SparseUpdate& update) {
  ForEachPiece(
      runs_, begin, end, kPieceElements, [&](kernels::GateView view, uint64_t from, uint64_t to) {
        const uint64_t length = to - from;
        size_t passed =
            kernels_.gate(open_ ? kernels::GateView::kOpen : view, theta.subspan(from, length),
                          w.subspan(from, length), residual.subspan(from, length),
                          positions_.data(), values_.data());
        if (rounded_ && view == kernels::GateView::kBF16) {
          passed = RoundValues(*rounded_, theta.subspan(from, length),
                               std::span(positions_).first(passed),
                               std::span(values_).first(passed), residual.subspan(from, length));
        }
        const uint32_t shift = static_cast<uint32_t>(from - begin);
        const size_t at = update.positions.size();
        update.positions.resize(at + passed);
        for (size_t i = 0; i < passed; ++i) {
          update.positions[at + i] = positions_[i] + shift;
        }
        update.values.insert(update.values.end(), values_.begin(),
                             values_.begin() + static_cast<ptrdiff_t>(passed));
      });
}

SparseUpdate PseudoGradient::Gate(std::span<const float> theta, std::span<const float> w,
                                  std::span<float> residual) {
  SparseUpdate update;
  update.elements = theta.size();
  update.positions.reserve(last_entries_);
  update.values.reserve(last_entries_);
  for (uint64_t begin = 0; begin < theta.size(); begin += kSparseBlockElements) {
    GateBlock(begin, std::min<uint64_t>(begin + kSparseBlockElements, theta.size()), theta, w,
              residual, update);
    update.starts.push_back(update.values.size());
  }
  last_entries_ = update.entries();
  return update;
}

void PseudoGradient::Dense(std::span<const float> theta, std::span<const float> w,
                           std::span<float> s) {
  std::vector<float> no_residual(kPieceElements);  // the open gate leaves it 0
  for (uint64_t begin = 0; begin < theta.size(); begin += kPieceElements) {
    const uint64_t length = std::min<uint64_t>(kPieceElements, theta.size() - begin);
    kernels_.gate(kernels::GateView::kOpen, theta.subspan(begin, length), w.subspan(begin, length),
                  std::span(no_residual).first(length), positions_.data(), s.data() + begin);
  }
}

}  // namespace pulse::loco
