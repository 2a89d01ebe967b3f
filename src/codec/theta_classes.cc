#include "codec/theta_classes.h"

#include <algorithm>

#include "kernels/class_rank/class_rank_math.h"

namespace pulse {
namespace {

// After so many a guess is looked at again.
constexpr size_t kPieceElements = 16 * kernels::kTileWords;

}  // namespace

void ThetaClasses::Classify(const kernels::ClassRankBody& kernel, std::span<const float> theta) {
  theta_ = theta;
  tiles_.resize(kernels::TilesOf(theta.size()));
  counts_.resize(tiles_.size());
  const auto classify = [&](size_t first, size_t length) {
    const size_t tile = first / kernels::kTileWords, tiles = kernels::TilesOf(length);
    return kernel.classify(AsBytes(theta.subspan(first, length)), kernels::kFloatLayout, top_,
                           std::span(tiles_).subspan(tile, tiles),
                           std::span(counts_).subspan(tile, tiles));
  };
  // The guess is that the block is like the one before. Where it proves too low, it is raised at
  // once, and what was classified by it is done again in the end.
  uint32_t top = 0;
  size_t right_from = 0;
  for (size_t first = 0; first < theta.size(); first += kPieceElements) {
    const size_t length = std::min(kPieceElements, theta.size() - first);
    top = std::max(top, classify(first, length));
    if (top > top_) {
      top_ = top;
      right_from = first + length;
    }
  }
  if (top < top_) {
    top_ = top;
    right_from = theta.size();
  }
  classify(0, right_from);
  sizes_ = kernels::SumOfCounts(counts_);
}

}  // namespace pulse
