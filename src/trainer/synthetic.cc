#include "trainer/synthetic.h"

#include <algorithm>
#include <limits>

#include "core/rng.h"

namespace pulse {
namespace {

// Weights hashed under one key: a stream of core/rng.h gives the key, a cheap integer hash (which
// the compiler vectorises) the elements. Small enough to stay in L1 beside the gradient's chunk.
constexpr uint64_t kChunkElements = uint64_t{1} << 12;

// Streams of RngUse::kInit: the weights, and what is fixed per weight over the whole run.
constexpr uint32_t kWeightsStep = 0;
constexpr uint32_t kFixedStep = 1;

struct ChunkKey {
  uint32_t add;
  uint32_t flip;
};

ChunkKey KeyOf(uint64_t seed, RngUse use, uint32_t trainer, uint32_t step, uint64_t chunk) {
  // 32 bits of chunk number repeat after 2^44 weights, which no machine holds.
  Rng rng(seed, {use, trainer, step, static_cast<uint32_t>(chunk)});
  const uint32_t add = rng.U32();
  return {add, rng.U32()};
}

// Wellons' lowbias32: a bijection whose output bits each depend on all input bits.
inline uint32_t Hash(uint32_t index, ChunkKey key) {
  uint32_t x = (index + key.add) ^ key.flip;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

// In (-1, 1), triangular around 0, a multiple of 2^-16.
inline float Noise(uint32_t hash) {
  const int32_t sum = static_cast<int32_t>(hash & 0xFFFF) + static_cast<int32_t>(hash >> 16);
  return static_cast<float>(sum - 65535) * 0x1p-16f;
}

inline float SmallInteger(uint32_t hash) {  // -7 .. 7
  return static_cast<float>(static_cast<int32_t>(hash & 7) - static_cast<int32_t>((hash >> 3) & 7));
}

// 0.02 * the centred sum of twelve 16-bit uniforms, as Rng::Normal makes it, from hashes.
void FillWeights(ChunkKey key, std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) {
    float sum = 0;  // a multiple of 2^-16 below 8: exact
    for (uint32_t j = 0; j < 6; ++j) sum += Noise(Hash(6 * i + j, key));
    out[i] = sum * 0.02f;
  }
}

struct NoiseShape {
  float along;            // scale * signal
  float across;           // scale * (1 - signal)
  uint32_t active_below;  // of 2^31
};

void FillNoise(const NoiseShape& shape, ChunkKey key, ChunkKey fixed_key, std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) {
    const uint32_t fixed = Hash(i, fixed_key);
    const float direction = static_cast<float>(static_cast<int32_t>(fixed & 1) * 2 - 1);
    const float active = static_cast<float>((fixed >> 1) < shape.active_below ? 1 : 0);
    out[i] = active * (shape.along * direction + shape.across * Noise(Hash(i, key)));
  }
}

void FillExact(float scale, ChunkKey key, std::span<float> out) {
  for (uint32_t i = 0; i < out.size(); ++i) out[i] = scale * SmallInteger(Hash(i, key));
}

// Roles rotate over trainers and weights: +big, small, -big. FP32 spacing at big = 2^13 is 2^-10
// and small lies in [2^-11, 2^-10), so big swallows or distorts a small that is added to it before
// -big.
void FillCancelling(float scale, uint32_t trainer, ChunkKey key, ChunkKey fixed_key,
                    std::span<float> out) {
  constexpr float kBig = 0x1p13f;
  const uint32_t first_role = trainer % 3;
  for (uint32_t i = 0; i < out.size(); ++i) {
    const uint32_t role = (first_role + (((Hash(i, fixed_key) >> 16) * 3) >> 16)) % 3;
    const float small = 0x1p-11f + static_cast<float>(Hash(i, key) >> 9) * 0x1p-34f;
    out[i] = scale * (role == 0 ? kBig : role == 1 ? small : -kBig);
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
    const ChunkKey key = KeyOf(options_.seed, RngUse::kInit, 0, kWeightsStep, chunk);
    if (options_.data == SyntheticData::kExact) {
      FillExact(0x1p-6f, key, out);
    } else {
      FillWeights(key, out);
    }
  }
  return OkStatus();
}

void SyntheticTrainer::FillChunk(const LocalStep& step, uint64_t chunk,
                                 std::span<float> out) const {
  const float scale = options_.gradient_scale / static_cast<float>(step.micro_batches);
  const NoiseShape shape = {
      scale * options_.signal, scale * (1 - options_.signal),
      static_cast<uint32_t>(static_cast<double>(options_.active_share) * 0x1p31)};
  // Micro-batches lie 2^40 weights apart.
  const ChunkKey key =
      KeyOf(options_.seed, RngUse::kSynthetic, step.trainer, static_cast<uint32_t>(step.step),
            chunk + (uint64_t{step.micro_batch} << 28));
  const ChunkKey fixed = KeyOf(options_.seed, RngUse::kInit, 0, kFixedStep, chunk);
  switch (options_.data) {
    case SyntheticData::kNoise:
      FillNoise(shape, key, fixed, out);
      break;
    case SyntheticData::kExact:
      FillExact(scale, key, out);
      break;
    case SyntheticData::kCancelling:
      // Micro-batches of one trainer cancel each other as those of several do.
      FillCancelling(scale, step.trainer + step.micro_batch, key, fixed, out);
      break;
  }
}

StatusOr<Metrics> SyntheticTrainer::GradientRange(const LocalStep& step, uint64_t begin,
                                                  std::span<const float>, std::span<const float>,
                                                  std::span<float> gradient) {
  if (Listed(options_.errors, step)) {
    return Unavailable("synthetic trainer {}: error asked for at step {}", step.trainer, step.step);
  }
  const uint64_t end = begin + gradient.size();
  std::vector<float> before;  // of a chunk that the range begins within
  for (uint64_t at = begin; at < end;) {
    const uint64_t chunk = at / kChunkElements;
    const uint64_t first = chunk * kChunkElements, stop = std::min(first + kChunkElements, end);
    const auto out = gradient.subspan(at - begin, stop - at);
    if (at == first) {
      FillChunk(step, chunk, out);
    } else {
      before.resize(stop - first);
      FillChunk(step, chunk, before);
      std::copy(before.begin() + static_cast<ptrdiff_t>(at - first), before.end(), out.begin());
    }
    at = stop;
  }
  if (Listed(options_.non_finite, step) && !gradient.empty()) {
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
