#include "inference_bridge/engine.h"

namespace pulse {

Status Engine::Notify(const EngineUpdate& update) {
  const std::string where = fmt::format("engine {}, version {}", name(), update.version.number);
  PULSE_RETURN_IF_ERROR(Annotate(Pause(), where + ", pausing"));
  const Status swapped = Annotate(Swap(update), where);
  const Status resumed = Annotate(Resume(), where + ", resuming");
  return swapped.ok() ? resumed : swapped;
}

}  // namespace pulse
