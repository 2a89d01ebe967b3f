// Who computes gradients where the weights are: the Trainer of a device.
#pragma once

#include "core/schema.h"
#include "core/status.h"
#include "device/memory.h"
#include "trainer/trainer.h"

namespace pulse {

class DeviceTrainer {
 public:
  virtual ~DeviceTrainer() = default;

  // The contract of Trainer::Gradient on arrays in device memory, with the same bits. Enqueued on
  // `stream`: the arrays must live until it has run.
  virtual StatusOr<Metrics> Gradient(const LocalStep& step, DeviceSpan<const float> weights,
                                     DeviceSpan<const float> rollout_weights,
                                     DeviceSpan<float> gradient, DeviceStream stream) = 0;

  // As Trainer's: whether GradientRange works, which ranks that share a trainer call alone.
  virtual bool computes_ranges() const { return false; }

  // The contract of Trainer::GradientRange, as above. kUnimplemented unless computes_ranges().
  virtual StatusOr<Metrics> GradientRange(const LocalStep& /*step*/, uint64_t /*begin*/,
                                          DeviceSpan<const float> /*weights*/,
                                          DeviceSpan<const float> /*rollout_weights*/,
                                          DeviceSpan<float> /*gradient*/, DeviceStream /*stream*/) {
    return Unimplemented("this trainer computes whole gradients alone");
  }
};

}  // namespace pulse
