#include "core/status.h"

#include <cerrno>
#include <system_error>

namespace pulse {
namespace {

absl::StatusCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

Status Annotate(const Status& status, std::string_view where) {
  if (status.ok()) return status;
  return Status(status.code(), fmt::format("{}: {}", where, ToStd(status.message())));
}

Status ErrnoStatus(int error_number, std::string_view what) {
  return Status(CodeOfErrno(error_number),
                fmt::format("{}: {}", what, std::generic_category().message(error_number)));
}

}  // namespace pulse
