// Measuring weights on a run's task: the same games for everyone who measures the same run.
#pragma once

#include <string>

#include "app/config.h"
#include "core/status.h"
#include "store/filesystem.h"
#include "trainer/trainer.h"

namespace pulse {

// Games are drawn from this, so that first, last and rebuilt weights meet the same ones.
uint64_t EvaluationSeed(const RunConfig& config);

// A checkpoint of FP32 masters, or of their view, as a flat FP32 array in schema order.
// kFailedPrecondition names the tensor that does not fit the trainer's schema.
StatusOr<std::vector<float>> LoadWeights(Filesystem& fs, const std::string& path,
                                         const ModelSchema& schema);

// Plays config.evaluate.samples games with the checkpoint's weights.
StatusOr<Metrics> EvaluateCheckpoint(Filesystem& fs, const RunConfig& config,
                                     const std::string& path);

std::string EvaluationText(const Metrics& metrics, bool json);

}  // namespace pulse
