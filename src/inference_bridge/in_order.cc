#include "inference_bridge/in_order.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace pulse {
namespace {

// Item i lives in slot i % slots until it is taken, so nobody runs further ahead than that.
class Window {
 public:
  Window(size_t count, size_t slots, const MakeItem& make)
      : count_(count), slots_(slots), make_(make) {}

  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return next_ == count_ || next_ < taken_ + slots_.size(); });
      if (next_ == count_) return;
      const size_t i = next_++;
      Slot& slot = slots_[i % slots_.size()];
      lock.unlock();
      auto made = make_(i, slot.scratch);
      lock.lock();
      slot.made = std::move(made);
      ready_.notify_one();
    }
  }

  Status TakeAll(const TakeItem& take) {
    for (size_t i = 0; i < count_; ++i) {
      Slot& slot = slots_[i % slots_.size()];
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [&] { return slot.made.has_value(); });
      }
      PULSE_RETURN_IF_ERROR(slot.made->status());
      PULSE_RETURN_IF_ERROR(take(i, **slot.made));
      const std::lock_guard lock(mutex_);
      slot.made.reset();
      ++taken_;
      room_.notify_one();
    }
    return OkStatus();
  }

  // No further item is begun.
  void Stop() {
    const std::lock_guard lock(mutex_);
    next_ = count_;
    room_.notify_all();
  }

 private:
  struct Slot {
    Bytes scratch;
    std::optional<StatusOr<ByteView>> made;  // guarded by mutex_ until it has a value
  };

  const size_t count_;
  std::vector<Slot> slots_;
  const MakeItem& make_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  size_t next_ = 0, taken_ = 0;  // guarded by mutex_
};

}  // namespace

Status ForEachInOrder(size_t count, int threads, const MakeItem& make, const TakeItem& take) {
  if (threads <= 1 || count <= 1) {
    Bytes scratch;
    for (size_t i = 0; i < count; ++i) {
      PULSE_ASSIGN_OR_RETURN(const ByteView item, make(i, scratch));
      PULSE_RETURN_IF_ERROR(take(i, item));
    }
    return OkStatus();
  }
  Window window(count, static_cast<size_t>(threads) + 1, make);
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads && static_cast<size_t>(t) < count; ++t) {
    workers.emplace_back([&window] { window.Work(); });
  }
  const Status status = window.TakeAll(take);
  window.Stop();
  return status;
}

}  // namespace pulse
