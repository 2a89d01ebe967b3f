// Moves bytes between pageable host memory and a device through a ring of pinned buffers, so that
// the copy inside the host and the copy over the bus overlap.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/deadline.h"
#include "device/resources.h"

namespace pulse {

struct StagingOptions {
  uint32_t slots = 2;
  // Large against the latency of one copy (about 10 us, which is 250 kB of a PCIe 4 x16 bus).
  uint64_t slot_bytes = uint64_t{4} << 20;
};

// Not thread-safe; one transfer at a time. `driver` and `clock` must outlive it. After an error it
// is broken: further calls return that error, and its destructor waits for the device, as pinned
// memory cannot be given back while a copy is under way.
class StagingRing {
 public:
  // kInvalidArgument for no slots or empty ones; kResourceExhausted.
  static StatusOr<StagingRing> Open(const DeviceDriver& driver, Clock& clock,
                                    const StagingOptions& options);

  // Equal lengths. Returns when `from` is read and its copy enqueued on `stream`: what follows
  // there sees it. kDeadlineExceeded when a slot did not become free in time.
  Status Upload(ByteView from, DeviceSpan<uint8_t> to, DeviceStream stream, Deadline deadline);

  // Equal lengths. Follows what is on `stream`; returns when all bytes are in `to`. On an error
  // `to` may be written in part.
  Status Download(DeviceSpan<const uint8_t> from, ByteSpan to, DeviceStream stream,
                  Deadline deadline);

 private:
  struct Slot {
    PinnedBuffer memory;
    OwnedEvent done;  // the last copy that used the slot
  };

  StagingRing(const DeviceDriver& driver, Clock& clock, uint64_t slot_bytes)
      : driver_(&driver), clock_(&clock), slot_bytes_(slot_bytes) {}

  Status Enqueue(void* to, const void* from, uint64_t bytes, const Slot& slot, DeviceStream stream);
  Status WaitFor(const Slot& slot, Deadline deadline);
  Status DoUpload(ByteView from, DeviceSpan<uint8_t> to, DeviceStream stream, Deadline deadline);
  Status DoDownload(DeviceSpan<const uint8_t> from, ByteSpan to, DeviceStream stream,
                    Deadline deadline);

  const DeviceDriver* driver_;
  Clock* clock_;
  uint64_t slot_bytes_;
  std::vector<Slot> slots_;
  uint64_t next_ = 0;  // counts uses of slots
  Status broken_;
};

}  // namespace pulse
