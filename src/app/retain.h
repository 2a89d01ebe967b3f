// Retention as a by-product of publishing: it never fails the publisher.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "store/store.h"

namespace pulse {

// Removes what is behind the newest `keep_versions` of a run and what they stand on, as `pulseloco
// gc` does with its default minimum age. Errors are logged and forgotten: the next call tries
// again.
void RetainNewest(Store& store, const std::string& run, uint64_t keep_versions, const Clock& clock,
                  Logger& log);

}  // namespace pulse
