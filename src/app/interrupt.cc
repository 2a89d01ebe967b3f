#include "app/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "app/exit_code.h"

namespace pulse {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

void OnSignal(int /*signal*/) {
  if (interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace

const std::atomic<bool>& CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return interrupted;
}

}  // namespace pulse
