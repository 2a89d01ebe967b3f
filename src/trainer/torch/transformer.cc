#include "trainer/torch/transformer.h"

#include <cmath>
#include <limits>

#include "trainer/torch/tokens.h"

namespace pulse {
namespace {

at::ScalarType ComputeType(Precision precision) {
  switch (precision) {
    case Precision::kBF16:
      return at::kBFloat16;
    case Precision::kF32:
      return at::kFloat;
    case Precision::kF64:
      return at::kDouble;
  }
  return at::kFloat;
}

std::vector<int64_t> Shape(const TensorSpec& spec) {
  return {spec.shape.begin(), spec.shape.end()};
}

// 0 where query i of `count` may see key j of past + count (j <= past + i), else -infinity.
at::Tensor CausalMask(int64_t past, int64_t count, at::ScalarType type) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return at::triu(at::full({count, past + count}, hidden, at::TensorOptions(type)), past + 1);
}

}  // namespace

Transformer::Transformer(const ModelShape& shape, const ModelSchema& schema, Precision precision,
                         std::span<const float> weights, bool trainable)
    : schema_(schema),
      width_(shape.width),
      heads_(shape.heads),
      compute_(ComputeType(precision)),
      wide_(precision == Precision::kF64 ? at::kDouble : at::kFloat) {
  const bool round = precision != Precision::kF64;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const TensorSpec& spec = schema.tensors()[i];
    // from_blob wants a mutable pointer; the copies below only read it.
    at::Tensor leaf =
        at::from_blob(const_cast<float*>(weights.data() + schema.offset(i)), Shape(spec));
    if (round && spec.dtype == DType::kBF16) leaf = leaf.to(at::kBFloat16);
    // Only factors of matrix products are of the products' type; embeddings enter sums.
    const bool factor = spec.shape.size() == 2 && !spec.name.starts_with("embed_");
    leaf = leaf.to(factor ? compute_ : wide_, /*non_blocking=*/false, /*copy=*/true);
    leaves_.push_back(leaf.set_requires_grad(trainable));
  }
  const auto leaf = [&](const std::string& name) { return leaves_[schema.Find(name).value()]; };
  positions_ = leaf("embed_positions.weight");
  tokens_ = leaf("embed_tokens.weight");
  final_norm_ = leaf("final_norm.weight");
  head_ = leaf("head.weight");
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    layers_.push_back({leaf(layer + "attention_norm.weight"), leaf(layer + "attention_qkv.weight"),
                       leaf(layer + "attention_out.weight"), leaf(layer + "mlp_norm.weight"),
                       leaf(layer + "mlp_up.weight"), leaf(layer + "mlp_down.weight")});
  }
}

KvCache Transformer::MakeCache(int64_t batch) const {
  KvCache cache;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<int64_t> shape = {batch * heads_, static_cast<int64_t>(wordle::kSequence),
                                        width_ / heads_};
    cache.keys.push_back(at::zeros(shape, compute_));
    cache.values.push_back(at::zeros(shape, compute_));
  }
  return cache;
}

at::Tensor Transformer::Norm(const at::Tensor& x, const at::Tensor& gain) const {
  return at::layer_norm(x, {width_}, gain).to(compute_);
}

at::Tensor Transformer::Attend(const Layer& layer, size_t index, const at::Tensor& x,
                               const at::Tensor& mask, KvCache* cache) const {
  const int64_t batch = x.size(0), count = x.size(1), head_width = width_ / heads_;
  const int64_t past = cache ? cache->tokens : 0;
  // [batch, n, 3, heads, head width] -> 3 of [batch * heads, n, head width]
  const auto qkv = at::linear(x, layer.qkv)
                       .view({batch, count, 3, heads_, head_width})
                       .permute({2, 0, 3, 1, 4})
                       .reshape({3, batch * heads_, count, head_width});
  at::Tensor keys = qkv[1], values = qkv[2];
  if (cache) {
    cache->keys[index].narrow(1, past, count).copy_(keys);
    cache->values[index].narrow(1, past, count).copy_(values);
    keys = cache->keys[index].narrow(1, 0, past + count);
    values = cache->values[index].narrow(1, 0, past + count);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  at::Tensor scores = at::bmm(qkv[0], keys.transpose(1, 2)).to(wide_) * scale;
  if (count > 1) scores = scores + mask;
  const auto seen = at::bmm(at::softmax(scores, -1).to(compute_), values)
                        .view({batch, heads_, count, head_width})
                        .transpose(1, 2)
                        .reshape({batch, count, width_});
  return at::linear(seen, layer.out);
}

at::Tensor Transformer::Run(const at::Tensor& tokens, KvCache* cache) const {
  const int64_t past = cache ? cache->tokens : 0, count = tokens.size(1);
  at::Tensor x = at::embedding(tokens_, tokens) + positions_.narrow(0, past, count);
  const at::Tensor mask = CausalMask(past, count, wide_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    x = x + Attend(layer, i, Norm(x, layer.attention_norm), mask, cache);
    x = x + at::linear(at::relu(at::linear(Norm(x, layer.mlp_norm), layer.up)), layer.down);
  }
  if (cache) cache->tokens += count;
  return x;
}

at::Tensor Transformer::LetterLogProbs(const at::Tensor& stream) const {
  return at::log_softmax(at::linear(Norm(stream, final_norm_), head_).to(wide_), -1);
}

void Transformer::ReadGradient(std::span<float> gradient) const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const TensorSpec& spec = schema_.tensors()[i];
    at::Tensor out = at::from_blob(gradient.data() + schema_.offset(i), Shape(spec));
    if (leaves_[i].grad().defined()) {
      out.copy_(leaves_[i].grad());
    } else {
      out.zero_();
    }
  }
}

}  // namespace pulse
