#include "device/mocked_device.h"

#include <cstring>

namespace pulse {

DeviceCode MockedDevice::Count() {
  const auto lock = Lock();
  if (selected_by_.empty()) selected_by_.insert(std::this_thread::get_id());
  if (!selected_by_.contains(std::this_thread::get_id())) {
    Violation("a call by a thread that has not selected the device");
  }
  return calls_++ == fail_at_ ? fail_code_ : 0;
}

DeviceCode MockedDevice::Violation(std::string what) {
  violations_.push_back(std::move(what));
  return kDeviceInvalidValue;
}

uint64_t MockedDevice::live() const {
  return allocations_.size() + streams_.size() + events_.size();
}

DeviceCode MockedDevice::Allocate(void** at, uint64_t bytes, bool pinned) {
  auto memory = std::make_unique<uint8_t[]>(bytes);
  std::memset(memory.get(), 0xA5, bytes);  // nobody may count on zeros
  const uint8_t* key = memory.get();
  *at = memory.get();
  allocations_.emplace(key, Allocation{std::move(memory), bytes, pinned});
  return 0;
}

DeviceCode MockedDevice::Release(void* at, bool pinned) {
  const auto lock = Lock();
  held_ = false;
  Progress();  // as cudaFree and cudaFreeHost wait for the device
  const auto found = allocations_.find(static_cast<uint8_t*>(at));
  if (found == allocations_.end() || found->second.pinned != pinned) {
    return Violation("gave back memory that is not there");
  }
  allocations_.erase(found);
  return 0;
}

bool MockedDevice::Contains(const void* at, uint64_t bytes, bool pinned) const {
  const auto* from = static_cast<const uint8_t*>(at);
  auto found = allocations_.upper_bound(from);
  if (found == allocations_.begin()) return false;
  --found;
  return found->second.pinned == pinned && from + bytes <= found->first + found->second.bytes;
}

bool MockedDevice::IsDeviceMemory(const void* at, uint64_t bytes) const {
  const auto lock = Lock();
  return Contains(at, bytes, false);
}

void MockedDevice::Enqueue(DeviceStream stream, std::function<bool()> work) {
  const auto lock = Lock();
  const auto found = streams_.find(stream.handle);
  if (found == streams_.end()) {
    Violation("work on a stream that is not there");
    return;
  }
  found->second->push_back(std::move(work));
}

void MockedDevice::Progress() {
  const auto lock = Lock();
  for (bool moved = !held_; moved;) {
    moved = false;
    for (auto& [handle, stream] : streams_) {
      while (!stream->empty() && stream->front()()) {
        stream->pop_front();
        moved = true;
      }
    }
  }
}

DeviceDriver MockedDevice::Table() {
  // Each counted call fails where it was told to.
  const auto counted = [this](auto body) {
    return [this, body](auto... args) -> DeviceCode {
      const auto lock = Lock();
      const DeviceCode code = Count();
      return code != 0 ? code : body(args...);
    };
  };
  DeviceDriver t;
  t.count_devices = counted([](int* count) { return *count = 1, 0; });
  t.set_device = [this](int device) {
    const auto lock = Lock();
    selected_by_.insert(std::this_thread::get_id());
    const DeviceCode code = Count();
    return code != 0 ? code : device == 0 ? 0 : kDeviceInvalidValue;
  };
  t.get_device = counted([](int* device) { return *device = 0, 0; });
  t.allocate = counted([this](void** at, uint64_t n) { return Allocate(at, n, false); });
  t.allocate_pinned = counted([this](void** at, uint64_t n) { return Allocate(at, n, true); });
  t.release = [this](void* at) { return Release(at, false); };
  t.release_pinned = [this](void* at) { return Release(at, true); };
  t.create_stream = counted([this](DeviceStream* stream) {
    auto made = std::make_unique<Stream>();
    stream->handle = made.get();
    streams_[made.get()] = std::move(made);
    return 0;
  });
  t.destroy_stream = [this](DeviceStream stream) {
    const auto lock = Lock();
    held_ = false;
    Progress();
    return streams_.erase(stream.handle) == 1 ? 0 : Violation("destroyed a stream twice");
  };
  t.create_event = counted([this](DeviceEvent* event) {
    auto made = std::make_unique<Event>();
    event->handle = made.get();
    events_[made.get()] = std::move(made);
    return 0;
  });
  t.destroy_event = [this](DeviceEvent event) {
    const auto lock = Lock();
    return events_.erase(event.handle) == 1 ? 0 : Violation("destroyed an event twice");
  };
  t.record = counted([this](DeviceEvent event, DeviceStream stream) {
    const auto found = events_.find(event.handle);
    if (found == events_.end()) return Violation("recorded an event that is not there");
    const uint64_t number = ++found->second->recorded;
    Enqueue(stream, [this, event, number] {
      const auto it = events_.find(event.handle);
      if (it != events_.end()) it->second->happened = number;
      return true;
    });
    return 0;
  });
  t.query = counted([this](DeviceEvent event) {
    Progress();
    const auto found = events_.find(event.handle);
    if (found == events_.end()) return Violation("queried an event that is not there");
    return found->second->happened == found->second->recorded ? 0 : kDeviceNotReady;
  });
  t.wait = counted([this](DeviceStream stream, DeviceEvent event) {
    const auto found = events_.find(event.handle);
    if (found == events_.end()) return Violation("waited for an event that is not there");
    const uint64_t number = found->second->recorded;
    Enqueue(stream, [this, event, number] {
      const auto it = events_.find(event.handle);
      return it == events_.end() || it->second->happened >= number;
    });
    return 0;
  });
  t.copy = counted([this](void* to, const void* from, uint64_t n, DeviceStream stream) {
    const bool up = Contains(from, n, true) && Contains(to, n, false);
    const bool down = Contains(from, n, false) && Contains(to, n, true);
    const bool within = Contains(from, n, false) && Contains(to, n, false);
    if (!up && !down && !within) return Violation("a copy that is not of pinned and device memory");
    Enqueue(stream, [this, to, from, n] {
      if (!Contains(to, n, false) && !Contains(to, n, true)) Violation("copied to freed memory");
      std::memcpy(to, from, n);
      return true;
    });
    return 0;
  });
  t.fill = counted([this](void* at, uint8_t value, uint64_t n, DeviceStream stream) {
    if (!Contains(at, n, false)) return Violation("filled what is not device memory");
    Enqueue(stream, [at, value, n] { return std::memset(at, value, n), true; });
    return 0;
  });
  t.describe = [](DeviceCode code) { return fmt::format("mocked failure {}", code); };
  return t;
}

}  // namespace pulse
