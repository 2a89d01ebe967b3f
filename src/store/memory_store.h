// A store in memory: for tests, and the plain statement of what a store does.
#pragma once

#include <memory>

#include "core/clock.h"
#include "store/store.h"

namespace pulse {

// Empty; its contents live as long as it does. The clock gives modified_unix_ns and must outlive
// it. An etag is never used twice, whatever is put or deleted.
std::unique_ptr<Store> MakeMemoryStore(const Clock& clock);

}  // namespace pulse
