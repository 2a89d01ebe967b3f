#include "loco/busy_signal.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/deadline.h"

namespace pulse::loco {
namespace {

// The clock may be one that no condition variable knows, so waits look at it at least this often.
constexpr int64_t kRecheckNs = 20'000'000;

}  // namespace

BusySignal::BusySignal(const Clock& clock, BusySignalOptions options, std::function<Status()> tell)
    : clock_(clock), options_(options), tell_(std::move(tell)), thread_([this] { Run(); }) {}

BusySignal::~BusySignal() {
  Stop();
}

void BusySignal::Run() {
  const Deadline longest = Deadline::After(clock_, options_.longest_ms);
  while (status_.ok()) {
    const Deadline next = Deadline::After(clock_, options_.interval_ms);
    std::unique_lock lock(mutex_);
    while (!ended_ && !next.Expired()) {
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(next.RemainingNs(), kRecheckNs)));
    }
    if (ended_ || longest.Expired()) return;
    lock.unlock();
    told_ = true;
    status_ = tell_();
  }
}

void BusySignal::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status BusySignal::End() {
  Stop();
  if (told_ && status_.ok()) {
    told_ = false;
    status_ = tell_();
  }
  return status_;
}

}  // namespace pulse::loco
