#include "app/retain.h"

#include "sync/retention.h"

namespace pulse {

void RetainNewest(Store& store, const std::string& run, uint64_t keep_versions, const Clock& clock,
                  Logger& log) {
  const auto plan = PlanGc(store, clock, {.chain = {.run = run}, .keep_versions = keep_versions});
  if (!plan.ok()) {
    log.warn("retention of run \"{}\" put off: {}", run, ToStd(plan.status().message()));
    return;
  }
  const GcResult result = ExecuteGc(store, *plan);
  for (const std::string& error : result.errors)
    log.warn("retention of run \"{}\": {}", run, error);
  if (result.removed > 0) log.debug("retention: removed {} objects", result.removed);
}

}  // namespace pulse
