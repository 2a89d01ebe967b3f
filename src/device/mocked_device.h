// A mocked driver table, named so: device memory is host memory, streams are queues that move only
// when an event is queried. It holds its caller to the rules of the real one, and fails any call on
// request. Threads may share it, one call at a time. For tests of host code; nothing here says that
// a kernel is right.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/driver.h"

namespace pulse {

// One device. The thread of the first call counts as having selected it; every other one must
// (set_device) before it makes calls. Must outlive what was made through its table.
class MockedDevice {
 public:
  // The table. Call `fail_at` (counting from 0, release and destroy calls not counted) returns
  // `code`, does nothing, and every later one works.
  DeviceDriver Table();
  void FailCall(uint64_t fail_at, DeviceCode code) { fail_at_ = fail_at, fail_code_ = code; }
  uint64_t calls() const { return calls_; }
  bool failed_a_call() const { return calls_ > fail_at_; }

  // Nothing on any stream moves while held.
  void Hold(bool held) { held_ = held; }

  // Appends work to a stream: called again and again until it returns true.
  void Enqueue(DeviceStream stream, std::function<bool()> work);
  // Whether [at, at + bytes) lies in one live allocation of the device.
  bool IsDeviceMemory(const void* at, uint64_t bytes) const;
  // Moves every stream as far as it goes.
  void Progress();
  // Counts a call of another table of this device (NCCL's), so that FailCall covers it too.
  DeviceCode Count();
  // Nobody else makes a call, and nothing moves, while it is held.
  std::unique_lock<std::recursive_mutex> Lock() const { return std::unique_lock(mutex_); }

  // What was made and not given back; broken rules ("copy from pageable memory"), in words.
  uint64_t live() const;
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Allocation {
    std::unique_ptr<uint8_t[]> memory;
    uint64_t bytes;
    bool pinned;
  };
  struct Event {
    uint64_t recorded = 0, happened = 0;
  };
  using Stream = std::deque<std::function<bool()>>;

  DeviceCode Allocate(void** at, uint64_t bytes, bool pinned);
  DeviceCode Release(void* at, bool pinned);
  bool Contains(const void* at, uint64_t bytes, bool pinned) const;
  DeviceCode Violation(std::string what);

  mutable std::recursive_mutex mutex_;
  std::set<std::thread::id> selected_by_;
  std::map<const uint8_t*, Allocation> allocations_;
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::vector<std::string> violations_;
  uint64_t calls_ = 0;
  uint64_t fail_at_ = ~uint64_t{0};
  DeviceCode fail_code_ = 0;
  bool held_ = false;
};

}  // namespace pulse
