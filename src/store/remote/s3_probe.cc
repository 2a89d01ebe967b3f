#include "store/remote/s3_probe.h"

namespace pulse {
namespace {

constexpr int kTries = 4;

// True if the put was refused for its condition, false if it was carried out or conditions are
// unknown there.
StatusOr<bool> Refused(const Status& status) {
  if (absl::IsAborted(status)) return true;
  if (status.ok() || absl::IsUnimplemented(status)) return false;
  return status;
}

StatusOr<bool> ProbeOnce(ConditionalPuts& puts, const std::string& key) {
  const Bytes one = {'1'}, two = {'2'};
  const auto first = puts.PutSmall(key, one, PutCondition::IfAbsent());
  if (absl::IsUnimplemented(first.status())) return false;
  PULSE_RETURN_IF_ERROR(first.status());
  PULSE_ASSIGN_OR_RETURN(bool refused,
                         Refused(puts.PutSmall(key, two, PutCondition::IfAbsent()).status()));
  if (!refused) return false;
  // The etag of other contents.
  const std::string wrong = "\"00000000000000000000000000000000\"";
  PULSE_ASSIGN_OR_RETURN(refused,
                         Refused(puts.PutSmall(key, two, PutCondition::IfMatch(wrong)).status()));
  if (!refused) return false;
  const Status swapped = puts.PutSmall(key, two, PutCondition::IfMatch(first->etag)).status();
  PULSE_ASSIGN_OR_RETURN(refused, Refused(swapped));
  return swapped.ok() && !refused;
}

}  // namespace

StatusOr<bool> ProbeConditions(ConditionalPuts& puts, const std::string& name) {
  StatusOr<bool> found = false;
  for (int i = 0; i < kTries; ++i) {
    const std::string key = fmt::format("{}-{}", name, i);
    found = ProbeOnce(puts, key);
    puts.Remove(key).IgnoreError();  // who may not delete leaves an object of one byte
    if (!absl::IsUnavailable(found.status())) break;  // a put of unknown outcome tells nothing
  }
  return found;
}

}  // namespace pulse
