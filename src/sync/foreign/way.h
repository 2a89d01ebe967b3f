// Which versions of a foreign chain to take, to get to one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sync/foreign/format.h"

namespace pulse {

// The steps to version `target`: the deltas from version `local` on (0 may be the receiver's own
// model), or where they are not all there, the newest full version at or below the target and the
// deltas behind it. marks: ascending, all above `local` or all there are. kNotFound names what is
// missing.
StatusOr<std::vector<ForeignMark>> FindForeignWay(const ForeignFormat& format, Store& store,
                                                  const std::vector<ForeignMark>& marks,
                                                  uint64_t target, std::optional<uint64_t> local);

}  // namespace pulse
