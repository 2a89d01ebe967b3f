#include "core/workers.h"

#include <algorithm>

namespace pulse {

Workers::Workers(size_t threads) {
  for (size_t i = 1; i < threads; ++i) threads_.emplace_back([this] { Help(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::TakeParts(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const size_t part = next_++;
    ++running_;
    lock.unlock();
    (*work_)(part);
    lock.lock();
    --running_;
  }
}

void Workers::Help() {
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [this] { return stop_ || next_ < parts_; });
    if (stop_) return;
    TakeParts(lock);
    if (running_ == 0) finished_.notify_one();
  }
}

void Workers::Run(size_t parts, const std::function<void(size_t part)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  next_ = 0;
  parts_ = parts;
  if (parts > 1) started_.notify_all();
  TakeParts(lock);
  finished_.wait(lock, [this] { return running_ == 0; });
  parts_ = 0;
}

void RunRanges(Workers& workers, uint64_t n, uint64_t granule,
               const std::function<void(uint64_t begin, uint64_t end)>& work) {
  const uint64_t granules = n / granule + (n % granule != 0);
  const uint64_t ranges = std::min<uint64_t>(workers.threads(), granules);
  workers.Run(ranges, [&](size_t range) {
    // The first granules % ranges ranges have one granule more.
    const auto start = [&](uint64_t r) {
      return r * (granules / ranges) + std::min(r, granules % ranges);
    };
    work(start(range) * granule, range + 1 == ranges ? n : start(range + 1) * granule);
  });
}

}  // namespace pulse
