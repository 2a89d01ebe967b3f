// An engine for tests: writes down what it was told, and notices a call out of order.
#pragma once

#include <string>
#include <vector>

#include "inference_bridge/engine.h"

namespace pulse {

class FakeEngine final : public Engine {
 public:
  std::string_view name() const override { return "fake"; }

  // "pause", "swap <number>", "resume", in the order of the calls.
  const std::vector<std::string>& calls() const { return calls_; }
  const std::vector<EngineUpdate>& updates() const { return updates_; }
  bool paused() const { return paused_; }

  // The next call of that name fails with this, once.
  void FailNext(std::string call, Status status) {
    failing_call_ = std::move(call);
    failure_ = std::move(status);
  }

 private:
  Status Pause() override {
    if (paused_) return Internal("paused twice");
    PULSE_RETURN_IF_ERROR(Call("pause", "pause"));
    paused_ = true;
    return OkStatus();
  }
  Status Swap(const EngineUpdate& update) override {
    if (!paused_) return Internal("swapped while running");
    PULSE_RETURN_IF_ERROR(Call("swap", fmt::format("swap {}", update.version.number)));
    updates_.push_back(update);
    return OkStatus();
  }
  Status Resume() override {
    if (!paused_) return Internal("resumed while running");
    PULSE_RETURN_IF_ERROR(Call("resume", "resume"));
    paused_ = false;
    return OkStatus();
  }

  Status Call(std::string_view call, std::string line) {
    calls_.push_back(std::move(line));
    if (call != failing_call_) return OkStatus();
    failing_call_.clear();
    return failure_;
  }

  std::vector<std::string> calls_;
  std::vector<EngineUpdate> updates_;
  bool paused_ = false;
  std::string failing_call_;
  Status failure_;
};

}  // namespace pulse
