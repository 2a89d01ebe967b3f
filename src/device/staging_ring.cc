#include "device/staging_ring.h"

#include <algorithm>
#include <cstring>

#include "device/poll.h"

namespace pulse {

StatusOr<StagingRing> StagingRing::Open(const DeviceDriver& driver, Clock& clock,
                                        const StagingOptions& options) {
  if (options.slots < 1 || options.slot_bytes < 1) {
    return InvalidArgument("a staging ring of {} slots of {} bytes; expected at least 1 of each",
                           options.slots, options.slot_bytes);
  }
  StagingRing ring(driver, clock, options.slot_bytes);
  for (uint32_t i = 0; i < options.slots; ++i) {
    PULSE_ASSIGN_OR_RETURN(PinnedBuffer memory, PinnedBuffer::Open(driver, options.slot_bytes));
    PULSE_ASSIGN_OR_RETURN(OwnedEvent done, OwnedEvent::Open(driver));
    ring.slots_.push_back({std::move(memory), std::move(done)});
  }
  return ring;
}

Status StagingRing::Upload(ByteView from, DeviceSpan<uint8_t> to, DeviceStream stream,
                           Deadline deadline) {
  if (!broken_.ok()) return broken_;
  return broken_ = DoUpload(from, to, stream, deadline);
}

Status StagingRing::Download(DeviceSpan<const uint8_t> from, ByteSpan to, DeviceStream stream,
                             Deadline deadline) {
  if (!broken_.ok()) return broken_;
  return broken_ = DoDownload(from, to, stream, deadline);
}

Status StagingRing::DoUpload(ByteView from, DeviceSpan<uint8_t> to, DeviceStream stream,
                             Deadline deadline) {
  if (from.size() != to.size) return Internal("upload of {} bytes to {}", from.size(), to.size);
  for (uint64_t at = 0; at < from.size(); at += slot_bytes_) {
    const Slot& slot = slots_[next_++ % slots_.size()];
    const uint64_t bytes = std::min(slot_bytes_, from.size() - at);
    PULSE_RETURN_IF_ERROR(WaitFor(slot, deadline));
    std::memcpy(slot.memory.get(), from.data() + at, bytes);
    PULSE_RETURN_IF_ERROR(Enqueue(to.data + at, slot.memory.get(), bytes, slot, stream));
  }
  return OkStatus();
}

// Runs slots_.size() copies ahead of the one it empties.
Status StagingRing::DoDownload(DeviceSpan<const uint8_t> from, ByteSpan to, DeviceStream stream,
                               Deadline deadline) {
  if (from.size != to.size()) return Internal("download of {} bytes to {}", from.size, to.size());
  const uint64_t pieces = from.size / slot_bytes_ + (from.size % slot_bytes_ != 0 ? 1 : 0);
  const uint64_t ahead = slots_.size();
  const uint64_t first = next_;
  next_ += pieces;
  const auto slot_of = [&](uint64_t piece) -> const Slot& {
    return slots_[(first + piece) % slots_.size()];
  };
  const auto bytes_of = [&](uint64_t piece) {
    return std::min(slot_bytes_, from.size - piece * slot_bytes_);
  };
  for (uint64_t piece = 0; piece < pieces + ahead; ++piece) {
    if (piece >= ahead) {
      const uint64_t full = piece - ahead;
      if (full >= pieces) break;
      PULSE_RETURN_IF_ERROR(WaitFor(slot_of(full), deadline));
      std::memcpy(to.data() + full * slot_bytes_, slot_of(full).memory.get(), bytes_of(full));
    }
    if (piece < pieces) {
      if (piece < ahead) PULSE_RETURN_IF_ERROR(WaitFor(slot_of(piece), deadline));
      PULSE_RETURN_IF_ERROR(Enqueue(slot_of(piece).memory.get(), from.data + piece * slot_bytes_,
                                    bytes_of(piece), slot_of(piece), stream));
    }
  }
  return OkStatus();
}

Status StagingRing::Enqueue(void* to, const void* from, uint64_t bytes, const Slot& slot,
                            DeviceStream stream) {
  PULSE_RETURN_IF_ERROR(
      DeviceStatus(*driver_, driver_->copy(to, from, bytes, stream), "copying over the bus"));
  return DeviceStatus(*driver_, driver_->record(slot.done.get(), stream), "recording an event");
}

Status StagingRing::WaitFor(const Slot& slot, Deadline deadline) {
  const Status status =
      PollUntil([&] { return HasHappened(*driver_, slot.done.get()); }, deadline, *clock_);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return DeadlineExceeded("a copy between host and device did not end in time");
}

}  // namespace pulse
