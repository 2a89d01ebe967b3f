#include "loco/device/device_sum.h"

#include <algorithm>
#include <mutex>

#include "loco/exchange/payload.h"

namespace pulse::loco {

DeviceSum::DeviceSum(const DeviceSumParts& parts)
    : work_(parts.work),
      encoding_(parts.encoding),
      releases_(parts.releases),
      kernels_(parts.kernels),
      peers_(parts.peers),
      peers_on_device_(parts.peers_on_device),
      sites_(parts.sites),
      encoder_(encoding_, kernels_),
      decoder_(work_, kernels_),
      sealer_(encoding_, kernels_),
      opener_(work_, kernels_),
      segments_(peers_, parts.host_kernels, parts.sites, parts.memory_bytes) {}

StatusOr<bool> DeviceSum::Sum(const DeviceUpdate* mine, const AgreedRound& round,
                              DeviceSpan<const float> theta, DeviceSpan<float> sum,
                              std::vector<uint64_t>* borders, Deadline deadline) {
  traffic_ = {};
  // How the entries are spread, for the agreement on segments.
  SparseUpdate spread;
  spread.elements = sum.size;
  if (mine != nullptr) spread.starts = mine->starts;
  const Contribution contribution{.sparse = mine != nullptr ? &spread : nullptr, .dense = {}};
  PULSE_ASSIGN_OR_RETURN(*borders, segments_.Borders(contribution, round, sum.size, deadline));
  const auto in_a_block = [](uint64_t border) { return border % kSparseBlockElements != 0; };
  if (borders->size() > 1 && std::any_of(borders->begin(), std::prev(borders->end()), in_a_block)) {
    return false;
  }
  // Of the entries and theta, which the other stream may still be writing.
  PULSE_RETURN_IF_ERROR(encoding_.Follow(work_));
  if (mine != nullptr) {
    PULSE_RETURN_IF_ERROR(encoder_.Measure(round.codec, *mine, theta, deadline));
  }
  PULSE_RETURN_IF_ERROR(SumSegments(mine, round, *borders, theta, sum, deadline));
  return true;
}

Status DeviceSum::SumSegments(const DeviceUpdate* mine, const AgreedRound& round,
                              const std::vector<uint64_t>& borders, DeviceSpan<const float> theta,
                              DeviceSpan<float> sum, Deadline deadline) {
  const HeldReleases::Scope hold(releases_);
  const DeviceDriver& driver = work_.driver();
  int device = 0;
  PULSE_RETURN_IF_ERROR(work_.Did(driver.get_device(&device), "asking for the device"));
  const auto select = [&] { return work_.Did(driver.set_device(device), "selecting the device"); };
  // The pipeline may start on a segment before the work on the one before it ends.
  std::mutex encoding;
  // Messages stay in their slots.
  const auto encode = [&](size_t i, Messages) -> StatusOr<Messages> {
    const std::scoped_lock one_at_a_time(encoding);
    PULSE_RETURN_IF_ERROR(select());
    Segment& segment = SlotOf(i);
    segment.begin = borders[i];
    segment.length = borders[i + 1] - borders[i];
    PULSE_RETURN_IF_ERROR(Encode(mine, round, segment, deadline));
    return Messages();
  };
  size_t sent = 0;
  const auto gather = [&](Messages) -> StatusOr<Messages> {
    PULSE_RETURN_IF_ERROR(Transfer(round, SlotOf(sent++), deadline));
    return Messages();
  };
  const auto fold = [&](size_t i, Messages) -> Status {
    PULSE_RETURN_IF_ERROR(select());
    const Segment& segment = SlotOf(i);
    return Fold(round, segment, theta.subspan(segment.begin, segment.length),
                sum.subspan(segment.begin, segment.length), deadline);
  };
  const Stage stages[] = {{encode, gather}};
  return RunPipeline(borders.size() - 1, stages, fold);
}

Status DeviceSum::Encode(const DeviceUpdate* mine, const AgreedRound& round, Segment& segment,
                         Deadline deadline) {
  if (OnDevice(round)) return EncodeOnDevice(mine, segment, deadline);
  segment.payload.clear();
  if (mine == nullptr || segment.length == 0) return OkStatus();
  const uint64_t first = segment.begin / kSparseBlockElements;
  PULSE_ASSIGN_OR_RETURN(segment.payload,
                         encoder_.Encode(first, first + SparseBlocksFor(segment.length), deadline));
  return OkStatus();
}

Status DeviceSum::EncodeOnDevice(const DeviceUpdate* mine, Segment& segment, Deadline deadline) {
  constexpr uint64_t kSeal = CheckedCommunicator::kSealBytes;
  DeviceSpan<uint8_t> message;
  if (mine != nullptr && segment.length > 0) {
    const uint64_t first = segment.begin / kSparseBlockElements;
    PULSE_ASSIGN_OR_RETURN(
        message, encoder_.EncodeOnDevice(first, first + SparseBlocksFor(segment.length), kSeal,
                                         segment.outbox, deadline));
  } else {
    PULSE_ASSIGN_OR_RETURN(message, segment.outbox.Get<uint8_t>(encoding_.driver(), kSeal));
  }
  PULSE_RETURN_IF_ERROR(sealer_.Seal(message, deadline));
  segment.sent = message;
  if (segment.ready.get().handle == nullptr) {
    PULSE_ASSIGN_OR_RETURN(segment.ready, OwnedEvent::Open(encoding_.driver()));
  }
  return encoding_.Did(encoding_.driver().record(segment.ready.get(), encoding_.stream()),
                       "recording an event");
}

Status DeviceSum::Transfer(const AgreedRound& round, Segment& segment, Deadline deadline) {
  if (!OnDevice(round)) {
    PULSE_RETURN_IF_ERROR(peers_.AllGather(segment.payload, segment.payloads, deadline));
    traffic_.contribution += segment.payload.size();
    traffic_.sent += segment.payload.size() * (segment.payloads.size() - 1);
    traffic_.received += BytesOfOthers(segment.payloads, peers_.rank());
    return OkStatus();
  }
  const auto inbox = [&](uint64_t bytes) {
    return segment.inbox.Get<uint8_t>(work_.driver(), bytes);
  };
  PULSE_RETURN_IF_ERROR(peers_on_device_->AllGatherOnDevice(segment.sent, segment.ready.get(),
                                                            inbox, segment.received, deadline));
  traffic_.contribution += BytesInside(segment.sent);
  traffic_.sent += BytesInside(segment.sent) * (segment.received.size() - 1);
  for (size_t r = 0; r < segment.received.size(); ++r) {
    if (static_cast<int>(r) != peers_.rank()) traffic_.received += BytesInside(segment.received[r]);
  }
  return OkStatus();
}

StatusOr<DeviceUpdate> DeviceSum::Decode(uint32_t trainer, const AgreedRound& round,
                                         const Segment& segment, DeviceSpan<const float> theta,
                                         Deadline deadline) {
  if (!OnDevice(round)) {
    return decoder_.Decode(round.codec, segment.payloads[trainer], theta, deadline);
  }
  const DeviceMessage sealed = segment.received[trainer];
  const auto sender = static_cast<int>(trainer);
  // A rank's own message has not been anywhere.
  std::optional<DeviceMessage> message = sealed.first(BytesInside(sealed));
  if (sender != peers_.rank()) {
    PULSE_ASSIGN_OR_RETURN(message, opener_.Open(sealed, deadline));
    if (!message) return ArrivedDamaged(peers_, sender);
  }
  return decoder_.DecodeOnDevice(round.codec, *message, theta, deadline);
}

Status DeviceSum::Fold(const AgreedRound& round, const Segment& segment,
                       DeviceSpan<const float> theta, DeviceSpan<float> sum, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(work_.Zero(sum));
  if (sites_.size() == 1) {
    return AddSite(sites_.front(), round, segment, theta, sum, deadline);
  }
  PULSE_ASSIGN_OR_RETURN(const auto site_sum, site_sum_.Get<float>(work_.driver(), sum.size));
  for (const auto& site : sites_) {
    PULSE_RETURN_IF_ERROR(work_.Zero(site_sum));
    PULSE_RETURN_IF_ERROR(AddSite(site, round, segment, theta, site_sum, deadline));
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.add_dense(sum, site_sum, work_.stream()), "adding a site's sum"));
  }
  return OkStatus();
}

Status DeviceSum::AddSite(const std::vector<uint32_t>& site, const AgreedRound& round,
                          const Segment& segment, DeviceSpan<const float> theta,
                          DeviceSpan<float> sum, Deadline deadline) {
  for (const uint32_t k : site) {
    if (round.contributes[k] == 0 || sum.size == 0) continue;
    const auto update = Decode(k, round, segment, theta, deadline);
    if (!update.ok()) return Annotate(update.status(), fmt::format("update of trainer {}", k));
    if (update->entries() == 0) continue;
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.add_sparse(sum, update->ToAdd(), work_.stream()), "adding an update"));
  }
  return OkStatus();
}

}  // namespace pulse::loco
