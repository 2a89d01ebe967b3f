// An inference engine, as the follower sees it: somebody to be told that new weights are in place.
#pragma once

#include <string>
#include <string_view>

#include "core/digest.h"
#include "core/status.h"
#include "sync/version.h"

namespace pulse {

// What lies at EngineUpdate::path.
enum class EngineUpdateKind {
  kFile,    // one safetensors file with all tensors
  kFolder,  // a folder with model.safetensors
};

struct EngineUpdate {
  VersionId version;
  Digest digest;  // of the view
  std::string path;
  EngineUpdateKind kind = EngineUpdateKind::kFile;
};

// One engine. Its calls block; one thread at a time.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string_view name() const = 0;

  // Pause, swap, resume, in this order. The weights at update.path stay as they are until this
  // returns. A version may be told again, after a restart of either side. An engine that was paused
  // is resumed whatever came of the swap; it then goes on with the weights it has. The first error
  // is returned, with the engine's name; kUnavailable: trying again may help.
  Status Notify(const EngineUpdate& update);

 private:
  virtual Status Pause() = 0;  // after an error the engine is taken to run as before
  virtual Status Swap(const EngineUpdate& update) = 0;
  virtual Status Resume() = 0;
};

// Nobody: readers open the file themselves when they like.
class NoEngine final : public Engine {
 public:
  std::string_view name() const override { return "none"; }

 private:
  Status Pause() override { return OkStatus(); }
  Status Swap(const EngineUpdate&) override { return OkStatus(); }
  Status Resume() override { return OkStatus(); }
};

}  // namespace pulse
