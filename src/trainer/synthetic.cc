#include "trainer/synthetic.h"

#include <algorithm>
#include <limits>

#include "core/rng.h"
#include "kernels/synthetic/synthetic_math.h"

namespace pulse {
namespace {

using kernels::SyntheticKey;

constexpr uint64_t kChunkElements = kernels::kSyntheticChunk;

// Streams of RngUse::kInit: the weights, and what is fixed per weight over the whole run.
constexpr uint32_t kWeightsStep = 0;
constexpr uint32_t kFixedStep = 1;

SyntheticKey KeyOf(uint64_t seed, RngUse use, uint32_t trainer, uint32_t step, uint64_t chunk) {
  return kernels::SyntheticKeyOf(seed, static_cast<uint8_t>(use), trainer, step, chunk);
}

// 0.02 * the centred sum of twelve 16-bit uniforms, as Rng::Normal makes it, from hashes.
void FillWeights(SyntheticKey key, std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) {
    float sum = 0;  // a multiple of 2^-16 below 8: exact
    for (uint32_t j = 0; j < 6; ++j) {
      sum += kernels::SyntheticNoise(kernels::SyntheticHash(6 * i + j, key));
    }
    out[i] = sum * 0.02f;
  }
}

void FillNoise(const kernels::NoiseShape& shape, SyntheticKey key, SyntheticKey fixed,
               std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) out[i] = kernels::NoiseElement(shape, key, fixed, i);
}

void FillExact(float scale, SyntheticKey key, std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) out[i] = kernels::ExactElement(scale, key, i);
}

void FillCancelling(float scale, uint32_t first_role, SyntheticKey key, SyntheticKey fixed,
                    std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) {
    out[i] = kernels::CancellingElement(scale, first_role, key, fixed, i);
  }
}

bool Listed(const std::vector<SyntheticFault>& faults, const LocalStep& at) {
  if (at.micro_batch + 1 != at.micro_batches) return false;
  return std::any_of(faults.begin(), faults.end(), [&](const SyntheticFault& fault) {
    return fault.trainer == at.trainer && fault.step == at.step;
  });
}

bool IsShare(float x) {
  return x >= 0 && x <= 1;
}

// The largest matrix width whose layers fit `parameters` a few times over, in steps of 64.
uint64_t WidthFor(uint64_t parameters) {
  uint64_t width = 64;
  while (12 * (width * 2) * (width * 2) * 4 <= parameters) width *= 2;
  return width;
}

// One chunk's elements, from its first on.
void FillChunk(const kernels::SyntheticGradientOp& op, uint64_t chunk, std::span<float> out) {
  const SyntheticKey key =
      KeyOf(op.seed, RngUse::kSynthetic, op.trainer, op.step, chunk + op.first_chunk);
  const SyntheticKey fixed = KeyOf(op.seed, RngUse::kInit, 0, kFixedStep, chunk);
  switch (op.data) {
    case kernels::SyntheticGradientOp::Data::kNoise:
      return FillNoise(op.shape, key, fixed, out);
    case kernels::SyntheticGradientOp::Data::kExact:
      return FillExact(op.scale, key, out);
    case kernels::SyntheticGradientOp::Data::kCancelling:
      return FillCancelling(op.scale, op.first_role, key, fixed, out);
  }
}

}  // namespace

StatusOr<SyntheticData> SyntheticDataFromName(std::string_view name) {
  if (name == "noise") return SyntheticData::kNoise;
  if (name == "exact") return SyntheticData::kExact;
  if (name == "cancelling") return SyntheticData::kCancelling;
  return InvalidArgument("synthetic data \"{}\": expected noise, exact or cancelling", name);
}

StatusOr<std::unique_ptr<SyntheticTrainer>> SyntheticTrainer::Make(SyntheticOptions options) {
  if (!IsShare(options.signal)) {
    return InvalidArgument("synthetic trainer: signal is {}; expected 0 to 1", options.signal);
  }
  if (!IsShare(options.active_share)) {
    return InvalidArgument("synthetic trainer: active_share is {}; expected 0 to 1",
                           options.active_share);
  }
  PULSE_ASSIGN_OR_RETURN(ModelSchema schema, ModelSchema::Make(options.tensors));
  return std::unique_ptr<SyntheticTrainer>(
      new SyntheticTrainer(std::move(options), std::move(schema)));
}

Status SyntheticTrainer::InitialWeights(std::span<float> weights) {
  for (uint64_t begin = 0, chunk = 0; begin < weights.size(); begin += kChunkElements, ++chunk) {
    const auto out = weights.subspan(begin, std::min(kChunkElements, weights.size() - begin));
    const SyntheticKey key = KeyOf(options_.seed, RngUse::kInit, 0, kWeightsStep, chunk);
    if (options_.data == SyntheticData::kExact) {
      FillExact(0x1p-6f, key, out);
    } else {
      FillWeights(key, out);
    }
  }
  return OkStatus();
}

StatusOr<kernels::SyntheticGradientOp> SyntheticTrainer::GradientOp(const LocalStep& step) const {
  if (Listed(options_.errors, step)) {
    return Unavailable("synthetic trainer {}: error asked for at step {}", step.trainer, step.step);
  }
  const float scale = options_.gradient_scale / static_cast<float>(step.micro_batches);
  kernels::SyntheticGradientOp op{};
  op.data = static_cast<kernels::SyntheticGradientOp::Data>(options_.data);
  op.shape = {scale * options_.signal, scale * (1 - options_.signal),
              static_cast<uint32_t>(static_cast<double>(options_.active_share) * 0x1p31)};
  op.scale = scale;
  op.seed = options_.seed;
  op.use = static_cast<uint8_t>(RngUse::kSynthetic);
  op.fixed_use = static_cast<uint8_t>(RngUse::kInit);
  op.trainer = step.trainer;
  op.step = static_cast<uint32_t>(step.step);
  op.fixed_step = kFixedStep;
  op.first_chunk = uint64_t{step.micro_batch} << 28;  // micro-batches lie 2^40 weights apart
  // Micro-batches of one trainer cancel each other as those of several do.
  op.first_role = (step.trainer + step.micro_batch) % 3;
  op.non_finite = Listed(options_.non_finite, step);
  op.elements = op.n = schema_.elements();
  return op;
}

StatusOr<Metrics> SyntheticTrainer::GradientRange(const LocalStep& step, uint64_t begin,
                                                  std::span<const float>, std::span<const float>,
                                                  std::span<float> gradient) {
  PULSE_ASSIGN_OR_RETURN(const kernels::SyntheticGradientOp op, GradientOp(step));
  const uint64_t end = begin + gradient.size();
  std::vector<float> before;  // of a chunk that the range begins within
  for (uint64_t at = begin; at < end;) {
    const uint64_t chunk = at / kChunkElements;
    const uint64_t first = chunk * kChunkElements, stop = std::min(first + kChunkElements, end);
    const auto out = gradient.subspan(at - begin, stop - at);
    if (at == first) {
      FillChunk(op, chunk, out);
    } else {
      before.resize(stop - first);
      FillChunk(op, chunk, before);
      std::copy(before.begin() + static_cast<ptrdiff_t>(at - first), before.end(), out.begin());
    }
    at = stop;
  }
  if (op.non_finite && !gradient.empty()) {
    if (begin == 0) gradient.front() = std::numeric_limits<float>::infinity();
    if (end == schema_.elements()) gradient.back() = std::numeric_limits<float>::quiet_NaN();
  }
  return Metrics{{"samples", 1}};
}

StatusOr<Metrics> SyntheticTrainer::Gradient(const LocalStep& step, std::span<const float> weights,
                                             std::span<const float> rollout_weights,
                                             std::span<float> gradient) {
  return GradientRange(step, 0, weights, rollout_weights, gradient);
}

StatusOr<Metrics> SyntheticTrainer::Evaluate(std::span<const float> weights, uint64_t samples,
                                             uint64_t) {
  double squares = 0;
  for (const float weight : weights) squares += double{weight} * double{weight};
  const double mean = weights.empty() ? 0 : squares / static_cast<double>(weights.size());
  const double count = static_cast<double>(samples);
  return Metrics{{"samples", count}, {"loss_sum", count * mean}};
}

StatusOr<Metrics> DeviceSyntheticTrainer::GradientRange(const LocalStep& step, uint64_t begin,
                                                        DeviceSpan<const float>,
                                                        DeviceSpan<const float>,
                                                        DeviceSpan<float> gradient,
                                                        DeviceStream stream) {
  PULSE_ASSIGN_OR_RETURN(kernels::SyntheticGradientOp op, trainer_.GradientOp(step));
  op.begin = begin;
  op.n = gradient.size;
  op.gradient = gradient.data;
  if (const DeviceCode code = launch_(op, stream); code != 0) {
    return Internal("the device refused the synthetic gradient (code {})", code);
  }
  return Metrics{{"samples", 1}};
}

StatusOr<Metrics> DeviceSyntheticTrainer::Gradient(const LocalStep& step,
                                                   DeviceSpan<const float> weights,
                                                   DeviceSpan<const float> rollout_weights,
                                                   DeviceSpan<float> gradient,
                                                   DeviceStream stream) {
  if (const uint64_t all = trainer_.schema().elements(); gradient.size != all) {
    return Internal("a gradient of {} elements, not {}", gradient.size, all);
  }
  return GradientRange(step, 0, weights, rollout_weights, gradient, stream);
}

std::vector<TensorSpec> LlmLikeTensors(uint64_t parameters) {
  std::vector<TensorSpec> tensors;
  const uint64_t width = WidthFor(parameters);
  const uint64_t layer = 12 * width * width + 2 * width;
  uint64_t left = parameters;
  // The embedding keeps at least a layer's worth, as in models of this shape.
  for (int i = 0; left >= 2 * layer; ++i, left -= layer) {
    const auto name = [i](std::string_view part) {
      return fmt::format("layers.{:02}.{}", i, part);
    };
    tensors.push_back({name("attention.qkv.weight"), DType::kBF16, {3 * width, width}});
    tensors.push_back({name("attention.out.weight"), DType::kBF16, {width, width}});
    tensors.push_back({name("attention.norm.weight"), DType::kF32, {width}});
    tensors.push_back({name("mlp.up.weight"), DType::kBF16, {4 * width, width}});
    tensors.push_back({name("mlp.down.weight"), DType::kBF16, {width, 4 * width}});
    tensors.push_back({name("mlp.norm.weight"), DType::kF32, {width}});
  }
  tensors.push_back({"embedding.weight", DType::kBF16, {left}});
  return tensors;
}

}  // namespace pulse
