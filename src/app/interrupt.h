// Ctrl-C and SIGTERM ask for a clean stop; asked a second time, the process ends at once.
#pragma once

namespace pulse {

// Installs the handlers. Signal handlers can only reach a global: this is the program's one.
void CatchInterrupts();
bool Interrupted();

}  // namespace pulse
