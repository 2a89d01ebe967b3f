#include "loco/device/device_sum.h"

#include <algorithm>

#include "loco/exchange/payload.h"

namespace pulse::loco {

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
  if (mine != nullptr) {
    PULSE_RETURN_IF_ERROR(coder_.Measure(round.codec, *mine, theta, deadline));
  }
  for (size_t i = 0; i + 1 < borders->size(); ++i) {
    const uint64_t begin = (*borders)[i], length = (*borders)[i + 1] - begin;
    Bytes payload;
    if (mine != nullptr && length > 0) {
      const uint64_t first = begin / kSparseBlockElements;
      PULSE_ASSIGN_OR_RETURN(payload,
                             coder_.Encode(first, first + SparseBlocksFor(length), deadline));
    }
    std::vector<Bytes> payloads;
    PULSE_RETURN_IF_ERROR(communicator_.AllGather(payload, payloads, deadline));
    traffic_.contribution += payload.size();
    traffic_.sent += payload.size() * (payloads.size() - 1);
    traffic_.received += BytesOfOthers(payloads, communicator_.rank());
    PULSE_RETURN_IF_ERROR(
        Fold(payloads, round, theta.subspan(begin, length), sum.subspan(begin, length), deadline));
  }
  return true;
}

Status DeviceSum::Fold(const std::vector<Bytes>& payloads, const AgreedRound& round,
                       DeviceSpan<const float> theta, DeviceSpan<float> sum, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(work_.Zero(sum));
  if (sites_.size() == 1) {
    return AddSite(sites_.front(), payloads, round, theta, sum, deadline);
  }
  PULSE_ASSIGN_OR_RETURN(const auto site_sum, site_sum_.Get<float>(work_.driver(), sum.size));
  for (const auto& site : sites_) {
    PULSE_RETURN_IF_ERROR(work_.Zero(site_sum));
    PULSE_RETURN_IF_ERROR(AddSite(site, payloads, round, theta, site_sum, deadline));
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.add_dense(sum, site_sum, work_.stream()), "adding a site's sum"));
  }
  return OkStatus();
}

Status DeviceSum::AddSite(const std::vector<uint32_t>& site, const std::vector<Bytes>& payloads,
                          const AgreedRound& round, DeviceSpan<const float> theta,
                          DeviceSpan<float> sum, Deadline deadline) {
  for (const uint32_t k : site) {
    if (round.contributes[k] == 0 || sum.size == 0) continue;
    const auto update = coder_.Decode(round.codec, payloads[k], theta, deadline);
    if (!update.ok()) return Annotate(update.status(), fmt::format("update of trainer {}", k));
    if (update->entries() == 0) continue;
    PULSE_RETURN_IF_ERROR(
        work_.Did(kernels_.add_sparse(sum, update->ToAdd(), work_.stream()), "adding an update"));
  }
  return OkStatus();
}

}  // namespace pulse::loco
