// The main program of tests that run under mpirun: pulse_mpi_test links it.
#pragma once

#include "collective/mpi/mpi_session.h"

namespace pulse {

// The session of this test process, started before the first test. Every rank runs all tests in
// the same order, so collective calls meet.
MpiSession& MpiTestSession();

}  // namespace pulse
