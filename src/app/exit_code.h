// The program's exit codes, so that a script can tell one failure from another. docs/operations.md
// lists them.
#pragma once

#include "core/status.h"

namespace pulse {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,      // anything without a code of its own
  kUsage = 2,        // wrong command line or configuration
  kNotFound = 3,     // the named file, bucket, run or version does not exist
  kCorrupt = 4,      // bytes are not what they claim to be
  kStaleBase = 5,    // right bytes, wrong base, epoch or schema
  kUnreachable = 6,  // store or peer gone; trying again may help
  kLostRace = 7,     // another publisher won
  kTimedOut = 8,     // a wait ended; the message names the missing ranks
  kNoSpace = 9,      // disk full, or a stated bound reached
  kNoPermission = 10,
  kNotSupported = 11,  // not built in, or not carried by a format
  kInterrupted = 130,  // Ctrl-C or SIGTERM, after a clean stop
};

ExitCode ExitCodeOf(const Status& status);

}  // namespace pulse
