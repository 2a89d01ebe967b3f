#include "app/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "app/exit_code.h"

namespace pulse {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int /*signal*/) {
  if (interrupted != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
  interrupted = 1;
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() {
  return interrupted != 0;
}

}  // namespace pulse
