// One rank of a command that mpirun starts several of: they end together, and say why once.
#pragma once

#include <functional>

#include "app/command_line.h"
#include "collective/communicator.h"
#include "collective/mpi/mpi_session.h"

namespace pulse {

// Starts MPI and runs `job` with the communicator of all ranks. Does not return where one of
// several ranks failed: prints the error, unless rank 0 speaks for all, and ends the job with its
// exit code.
Status RunAsRank(Environment& env, const std::function<Status(MpiSession&, Communicator&)>& job);

}  // namespace pulse
