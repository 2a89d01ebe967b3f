#include "loco/device/device_seals.h"

namespace pulse::loco {

static_assert(CheckedCommunicator::kSealBytes == sizeof(Digest));

Status DeviceSeals::Seal(DeviceSpan<uint8_t> message, Deadline deadline) {
  const auto inside = message.first(BytesInside(message));
  PULSE_ASSIGN_OR_RETURN(const Digest seal, digests_.OfBytes(inside, deadline));
  return work_.Up(std::span<const uint8_t>(seal.bytes), message.subspan(inside.size, sizeof(seal)),
                  deadline);
}

StatusOr<std::optional<DeviceMessage>> DeviceSeals::Open(DeviceMessage sealed, Deadline deadline) {
  if (sealed.size < sizeof(Digest)) return std::nullopt;
  const DeviceMessage inside = sealed.first(BytesInside(sealed));
  Digest seal;
  PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(sealed.subspan(inside.size, sizeof(seal)),
                                            std::span(seal.bytes), deadline));
  PULSE_ASSIGN_OR_RETURN(const Digest found, digests_.OfBytes(inside, deadline));
  if (found != seal) return std::nullopt;
  return inside;
}

}  // namespace pulse::loco
