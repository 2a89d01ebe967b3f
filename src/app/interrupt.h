// Ctrl-C and SIGTERM ask for a clean stop; asked a second time, the process ends at once.
#pragma once

#include <atomic>

namespace pulse {

// Installs the handlers and returns the flag they set. Signal handlers can only reach a global:
// this is the program's one.
const std::atomic<bool>& CatchInterrupts();

}  // namespace pulse
