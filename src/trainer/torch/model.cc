#include "trainer/torch/model.h"

#include <algorithm>

#include "core/rng.h"
#include "trainer/torch/tokens.h"

namespace pulse {

StatusOr<ModelSchema> MakeModelSchema(const ModelShape& shape) {
  if (shape.layers == 0 || shape.width == 0 || shape.heads == 0) {
    return InvalidArgument("layers, width and heads must be above 0; they are {}, {} and {}",
                           shape.layers, shape.width, shape.heads);
  }
  if (shape.width % shape.heads != 0) {
    return InvalidArgument("width {} is no multiple of heads {}", shape.width, shape.heads);
  }
  const uint64_t d = shape.width;
  std::vector<TensorSpec> tensors = {
      {"embed_positions.weight", DType::kBF16, {wordle::kSequence, d}},
      {"embed_tokens.weight", DType::kBF16, {wordle::kVocabulary, d}},
      {"final_norm.weight", DType::kF32, {d}},
      {"head.weight", DType::kBF16, {wordle::kAlphabet, d}},
  };
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    tensors.push_back({layer + "attention_norm.weight", DType::kF32, {d}});
    tensors.push_back({layer + "attention_qkv.weight", DType::kBF16, {3 * d, d}});
    tensors.push_back({layer + "attention_out.weight", DType::kBF16, {d, d}});
    tensors.push_back({layer + "mlp_norm.weight", DType::kF32, {d}});
    tensors.push_back({layer + "mlp_up.weight", DType::kBF16, {4 * d, d}});
    tensors.push_back({layer + "mlp_down.weight", DType::kBF16, {d, 4 * d}});
  }
  return ModelSchema::Make(std::move(tensors));
}

void InitializeWeights(const ModelSchema& schema, uint64_t seed, std::span<float> weights) {
  constexpr float kDeviation = 0.02f;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const TensorSpec& spec = schema.tensors()[i];
    const auto tensor = weights.subspan(schema.offset(i), spec.elements());
    Rng rng(seed, {RngUse::kInit, 0, 0, static_cast<uint32_t>(i)});
    const bool norm = spec.dtype == DType::kF32;
    std::generate(tensor.begin(), tensor.end(),
                  [&] { return norm ? 1.0f : kDeviation * rng.Normal(); });
  }
}

}  // namespace pulse
