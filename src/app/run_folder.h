// Where the files of a training run lie.
#pragma once

#include <string>

namespace pulse {

struct RunFolder {
  std::string path;  // the configuration's run.dir

  std::string Config() const { return path + "/config.yaml"; }
  std::string Metrics() const { return path + "/metrics.jsonl"; }
  std::string InitialWeights() const { return path + "/initial.safetensors"; }  // FP32 masters
  std::string FinalWeights() const { return path + "/final.safetensors"; }      // FP32 masters
  std::string Bucket() const { return path + "/bucket"; }
  std::string Checkpoints() const { return path + "/checkpoints"; }
  std::string PublisherState() const { return path + "/publisher"; }
};

}  // namespace pulse
