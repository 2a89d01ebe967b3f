// Errors are values: absl::Status with messages made by fmt, and the two macros that pass them on.
//
// The code names what the caller can do next:
//   kInvalidArgument     fix the call or the configuration
//   kNotFound            the named object does not exist
//   kFailedPrecondition  right bytes, wrong base or epoch: refresh and try again
//   kAborted             lost a race: another writer won
//   kDataLoss            corrupt bytes: discard them
//   kDeadlineExceeded    a wait ended; the message says who was missing
//   kUnavailable         peer or store gone; trying again may help
//   kResourceExhausted   a stated bound was reached
//   kUnimplemented       not built in, or not carried by a format
//   kInternal            a bug of ours
// The message names the cause, the input and what was expected, in one line.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace pulse {

using absl::Status;
using absl::StatusOr;

inline Status OkStatus() {
  return absl::OkStatus();
}

// The one conversion between std::string_view and Debian's absl::string_view.
inline absl::string_view ToAbsl(std::string_view s) {
  return {s.data(), s.size()};
}
inline std::string_view ToStd(absl::string_view s) {
  return {s.data(), s.size()};
}

template <typename... Args>
Status MakeError(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

#define PULSE_DEFINE_ERROR(Name, kCode)                                             \
  template <typename... Args>                                                       \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {                 \
    return MakeError(absl::StatusCode::kCode, format, std::forward<Args>(args)...); \
  }
PULSE_DEFINE_ERROR(InvalidArgument, kInvalidArgument)
PULSE_DEFINE_ERROR(NotFound, kNotFound)
PULSE_DEFINE_ERROR(AlreadyExists, kAlreadyExists)
PULSE_DEFINE_ERROR(FailedPrecondition, kFailedPrecondition)
PULSE_DEFINE_ERROR(Aborted, kAborted)
PULSE_DEFINE_ERROR(Cancelled, kCancelled)
PULSE_DEFINE_ERROR(DataLoss, kDataLoss)
PULSE_DEFINE_ERROR(DeadlineExceeded, kDeadlineExceeded)
PULSE_DEFINE_ERROR(Unavailable, kUnavailable)
PULSE_DEFINE_ERROR(ResourceExhausted, kResourceExhausted)
PULSE_DEFINE_ERROR(PermissionDenied, kPermissionDenied)
PULSE_DEFINE_ERROR(Unimplemented, kUnimplemented)
PULSE_DEFINE_ERROR(Internal, kInternal)
#undef PULSE_DEFINE_ERROR

// Same code, message prefixed with where it happened: "trainer 3, round 17: <message>". OK stays
// OK.
Status Annotate(const Status& status, std::string_view where);

// The status of the last failed system call; errno decides the code (ENOENT -> kNotFound, EACCES ->
// kPermissionDenied, ENOSPC -> kResourceExhausted, ...). `what` names call and path.
Status ErrnoStatus(int error_number, std::string_view what);

}  // namespace pulse

#define PULSE_CONCAT_INNER(a, b) a##b
#define PULSE_CONCAT(a, b) PULSE_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is not OK.
#define PULSE_RETURN_IF_ERROR(expression)          \
  do {                                             \
    ::pulse::Status pulse_status_ = (expression);  \
    if (!pulse_status_.ok()) return pulse_status_; \
  } while (false)

// PULSE_ASSIGN_OR_RETURN(auto x, F()); returns the error, or assigns the value.
#define PULSE_ASSIGN_OR_RETURN(lhs, expression) \
  PULSE_ASSIGN_OR_RETURN_IMPL(PULSE_CONCAT(pulse_statusor_, __LINE__), lhs, expression)
#define PULSE_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expression) \
  auto statusor = (expression);                                \
  if (!statusor.ok()) return statusor.status();                \
  lhs = std::move(statusor).value()
