#include "collective/mpi/mpi_status.h"

#include <mpi.h>

namespace pulse {
namespace {

absl::StatusCode CodeOf(int error_class) {
  switch (error_class) {
    case MPI_ERR_NO_MEM:
      return absl::StatusCode::kResourceExhausted;
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_RANK:
    case MPI_ERR_REQUEST:
    case MPI_ERR_TAG:
    case MPI_ERR_TRUNCATE:
    case MPI_ERR_TYPE:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

Status MpiStatus(int error_code, std::string_view call) {
  if (error_code == MPI_SUCCESS) return OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(error_code, text, &length) != MPI_SUCCESS) length = 0;
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(error_code, &error_class);
  return MakeError(CodeOf(error_class), "{}: {} (MPI error {})", call,
                   std::string_view(text, static_cast<size_t>(length)), error_code);
}

}  // namespace pulse
