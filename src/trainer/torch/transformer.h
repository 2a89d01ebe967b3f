// The transformer's arithmetic. Internal: this header brings LibTorch with it, so only the sources
// of this folder that compute with tensors include it.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "trainer/torch/model.h"

namespace pulse {

// Keys and values of the tokens so far, per layer: [batch * heads, positions, width / heads].
struct KvCache {
  std::vector<at::Tensor> keys, values;
  int64_t tokens = 0;
};

// The view of one set of weights, ready to compute. Functions throw c10::Error on LibTorch's
// errors; the callers' edge turns them into a Status. Used by one thread.
class Transformer {
 public:
  // Copies `weights` (schema.elements() floats); `schema` must outlive the object. With
  // `trainable`, autograd records what is computed.
  Transformer(const ModelShape& shape, const ModelSchema& schema, Precision precision,
              std::span<const float> weights, bool trainable);

  KvCache MakeCache(int64_t batch) const;

  // tokens: [batch, n] int64, following the cache's tokens if there is a cache (which then takes
  // them in). Returns the last layer's residual stream, [batch, n, width].
  at::Tensor Run(const at::Tensor& tokens, KvCache* cache) const;

  // Log-probabilities over the 26 letters, from a residual stream: [..., width] -> [..., 26].
  at::Tensor LetterLogProbs(const at::Tensor& stream) const;

  // After backward(): the gradient in schema order, FP32. The view's gradient stands for the
  // masters' (straight through the cast). Tensors that the loss did not touch get 0.
  void ReadGradient(std::span<float> gradient) const;

 private:
  struct Layer {
    at::Tensor attention_norm, qkv, out, mlp_norm, up, down;
  };

  at::Tensor Norm(const at::Tensor& x, const at::Tensor& gain) const;
  at::Tensor Attend(const Layer& layer, size_t index, const at::Tensor& x, const at::Tensor& mask,
                    KvCache* cache) const;

  const ModelSchema& schema_;
  int64_t width_, heads_;
  at::ScalarType compute_, wide_;
  std::vector<at::Tensor> leaves_;  // in schema order
  at::Tensor positions_, tokens_, final_norm_, head_;
  std::vector<Layer> layers_;
};

}  // namespace pulse
