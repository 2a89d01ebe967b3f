#include "device/driver.h"

namespace pulse {

Status DeviceStatus(const DeviceDriver& driver, DeviceCode code, std::string_view call) {
  if (code == 0) return OkStatus();
  const auto kind = code == kDeviceOutOfMemory    ? absl::StatusCode::kResourceExhausted
                    : code == kDeviceInvalidValue ? absl::StatusCode::kInternal
                                                  : absl::StatusCode::kUnavailable;
  return MakeError(kind, "{}: {} (CUDA error {})", call, driver.describe(code), code);
}

}  // namespace pulse
