// A trainer without a model: weights and gradients of any size, drawn by hashing. For tests of the
// loop, whose sums it can make exact or as order-sensitive as they get, and for benches.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/schema.h"
#include "core/status.h"
#include "kernels/synthetic/synthetic_cuda_op.h"
#include "trainer/device_trainer.h"
#include "trainer/trainer.h"

namespace pulse {

enum class SyntheticData {
  // Weights Normal * 0.02, as in language models; gradients a fixed direction plus noise.
  kNoise,
  // Small integers times powers of two: sums are exact in any order.
  kExact,
  // Trainers' gradients cancel each other with a small rest, so that any other order of summation
  // (swapping the first two addends aside, which is no other order for FP32) changes bits.
  kCancelling,
};

// kInvalidArgument lists the names: "noise", "exact", "cancelling".
StatusOr<SyntheticData> SyntheticDataFromName(std::string_view name);

// One local step of one trainer, as LocalStep counts them; it happens in the last micro-batch.
struct SyntheticFault {
  uint32_t trainer = 0;
  uint64_t step = 0;
};

struct SyntheticOptions {
  std::vector<TensorSpec> tensors;
  uint64_t seed = 1;
  SyntheticData data = SyntheticData::kNoise;

  // Every gradient is a multiple of this; for kExact a power of two keeps it exact.
  float gradient_scale = 1;
  // kNoise: gradient = scale * (signal * (+-1, fixed per weight) + (1 - signal) * noise). Adam
  // divides by the gradient's size, so what moves weights is not the scale but how constant the
  // sign is: 0 is a random walk, 1 a march of one learning rate a step. In [0, 1].
  float signal = 0.1f;
  // kNoise: the share of weights that ever get a gradient other than 0: a bound on every density,
  // reached when each step is visible. In [0, 1].
  float active_share = 1;

  bool computes_ranges = true;  // false: as a trainer whose gradients need whole weights

  std::vector<SyntheticFault> non_finite = {};  // the gradient holds an infinity and a NaN
  std::vector<SyntheticFault> errors = {};      // Gradient() returns kUnavailable
};

// Gradients are pure functions of (seed, trainer, step, micro-batch, index) and ignore the weights;
// of M micro-batches each has a gradient of the asked-for size, divided by M. No libm in
// any value, so the same bits on every machine.
class SyntheticTrainer final : public Trainer {
 public:
  // kInvalidArgument for options out of range or a schema that does not hold together.
  static StatusOr<std::unique_ptr<SyntheticTrainer>> Make(SyntheticOptions options);

  const ModelSchema& schema() const override { return schema_; }
  Status InitialWeights(std::span<float> weights) override;
  // Metrics: {"samples": 1}.
  StatusOr<Metrics> Gradient(const LocalStep& step, std::span<const float> weights,
                             std::span<const float> rollout_weights,
                             std::span<float> gradient) override;
  bool computes_ranges() const override { return options_.computes_ranges; }
  StatusOr<Metrics> GradientRange(const LocalStep& step, uint64_t begin,
                                  std::span<const float> weights,
                                  std::span<const float> rollout_weights,
                                  std::span<float> gradient) override;
  // Metrics: "samples", and as "loss_sum" samples times the mean square of the weights.
  StatusOr<Metrics> Evaluate(std::span<const float> weights, uint64_t samples,
                             uint64_t seed) override;

  // The whole gradient as device code makes it; the caller says where it goes, and may say what
  // range of it. kUnavailable where an error was asked for.
  StatusOr<kernels::SyntheticGradientOp> GradientOp(const LocalStep& step) const;

 private:
  SyntheticTrainer(SyntheticOptions options, ModelSchema schema)
      : options_(std::move(options)), schema_(std::move(schema)) {}

  SyntheticOptions options_;
  ModelSchema schema_;
};

// The same gradients where the weights are.
class DeviceSyntheticTrainer final : public DeviceTrainer {
 public:
  using Launch = std::function<DeviceCode(const kernels::SyntheticGradientOp&, DeviceStream)>;

  // trainer: must outlive this. launch: SyntheticGradientCuda, or its emulation.
  DeviceSyntheticTrainer(const SyntheticTrainer& trainer, Launch launch)
      : trainer_(trainer), launch_(std::move(launch)) {}

  StatusOr<Metrics> Gradient(const LocalStep& step, DeviceSpan<const float> weights,
                             DeviceSpan<const float> rollout_weights, DeviceSpan<float> gradient,
                             DeviceStream stream) override;
  bool computes_ranges() const override { return trainer_.computes_ranges(); }
  StatusOr<Metrics> GradientRange(const LocalStep& step, uint64_t begin,
                                  DeviceSpan<const float> weights,
                                  DeviceSpan<const float> rollout_weights,
                                  DeviceSpan<float> gradient, DeviceStream stream) override;

 private:
  const SyntheticTrainer& trainer_;
  Launch launch_;
};

// Tensors as a small language model has them, of exactly `parameters` elements together: BF16
// matrices and FP32 norms, layer by layer, the rest in the embedding. parameters >= 1.
std::vector<TensorSpec> LlmLikeTensors(uint64_t parameters);

}  // namespace pulse
