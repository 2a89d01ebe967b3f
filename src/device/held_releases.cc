#include "device/held_releases.h"

#include <mutex>
#include <utility>
#include <vector>

namespace pulse {

struct HeldReleases::Held {
  std::mutex mutex;
  bool holds = false;
  std::vector<void*> memory;
};

HeldReleases::HeldReleases(const DeviceDriver& driver)
    : held_(std::make_shared<Held>()), table_(driver) {
  table_.release = [held = held_, release = driver.release](void* at) -> DeviceCode {
    {
      const std::scoped_lock lock(held->mutex);
      if (held->holds) {
        held->memory.push_back(at);
        return 0;
      }
    }
    return release(at);
  };
}

void HeldReleases::Hold() {
  const std::scoped_lock lock(held_->mutex);
  held_->holds = true;
}

void HeldReleases::GiveBack() {
  std::vector<void*> memory;
  {
    const std::scoped_lock lock(held_->mutex);
    held_->holds = false;
    memory = std::exchange(held_->memory, {});
  }
  for (void* at : memory) table_.release(at);
}

}  // namespace pulse
