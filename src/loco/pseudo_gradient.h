// The end of a trainer's local steps: what it has to say (theta - w, and what it held back), and
// which entries of that the next forward pass would see.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/sparse_update.h"
#include "core/workers.h"
#include "kernels/kernels.h"
#include "loco/view_runs.h"

namespace pulse::loco {

// Holds its scratch; not thread-safe.
class PseudoGradient {
 public:
  // workers: must outlive this; each thread has scratch of 8 MiB at most. runs: of the schema.
  // open: let everything pass, whatever the view. rounded: see Options::rounded_values.
  PseudoGradient(const kernels::KernelTable& kernels, Workers& workers, std::vector<ViewRun> runs,
                 bool open, std::optional<unsigned> rounded = {});

  // s = (theta - w) + residual, split in two: visible entries, in blocks of kSparseBlockElements,
  // and the new residual, which is s where nothing was emitted and elsewhere 0, or what rounding
  // took away. Equal lengths, those of the schema. Bit-equal for every kernel body and
  // number of threads.
  SparseUpdate Gate(std::span<const float> theta, std::span<const float> w,
                    std::span<float> residual);

  // s = (theta - w) + 0 as a dense array: the open gate without residual (DiLoCo).
  void Dense(std::span<const float> theta, std::span<const float> w, std::span<float> s);

 private:
  // The entries of one block.
  struct Block {
    std::unique_ptr<uint32_t[]> positions;
    std::unique_ptr<float[]> values;
    size_t entries = 0;
  };
  void GateBlock(uint64_t begin, uint64_t end, std::span<const float> theta,
                 std::span<const float> w, std::span<float> residual, Block& block) const;

  kernels::KernelTable kernels_;
  Workers& workers_;
  std::vector<ViewRun> runs_;
  bool open_;
  std::optional<unsigned> rounded_;
  std::vector<Block> blocks_;  // one a thread
  uint64_t last_entries_ = 0;  // the next round's are about as many
};

}  // namespace pulse::loco
