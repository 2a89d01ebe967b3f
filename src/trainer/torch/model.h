// The language model: a small decoder-only transformer (pre-norm, ReLU, no biases, learned
// positions). Plain types only; the arithmetic is in transformer.h.
#pragma once

#include <cstdint>
#include <span>

#include "core/schema.h"

namespace pulse {

struct ModelShape {
  uint32_t layers = 2;
  uint32_t width = 128;  // a multiple of `heads`
  uint32_t heads = 4;
};

// In what the matrix products compute. Norms, softmax, embeddings and the sums of the residual
// stream are FP32 always (BF16 norms are an order of magnitude slower in LibTorch 1.13).
enum class Precision {
  kBF16,  // factors and results BF16, sums FP32
  kF32,   // the same BF16-rounded weights, activations FP32: for CPUs without BF16 instructions
  kF64,   // everything FP64 on unrounded weights: for checks of the gradient
};

// Matrices and embeddings have a BF16 view, norms an FP32 view (they are 0.2 % of the elements).
// kInvalidArgument: a zero, or a width that is no multiple of heads.
StatusOr<ModelSchema> MakeModelSchema(const ModelShape& shape);

// Norms 1, all else normal with deviation 0.02 (GPT-2's), from streams (seed, kInit, tensor).
// weights: schema.elements() floats, overwritten.
void InitializeWeights(const ModelSchema& schema, uint64_t seed, std::span<float> weights);

}  // namespace pulse
