// Gives device memory back later: cudaFree waits for all work of the device, and so, while NCCL is
// at work, for a peer, which only NCCL's abort ends.
#pragma once

#include <memory>

#include "device/driver.h"

namespace pulse {

// Its table is `driver`'s, but that between Hold and GiveBack `release` is put off. Thread-safe as
// the table is. `driver` must outlive it, and it what was made through its table.
class HeldReleases {
 public:
  explicit HeldReleases(const DeviceDriver& driver);
  ~HeldReleases() { GiveBack(); }
  HeldReleases(const HeldReleases&) = delete;
  HeldReleases& operator=(const HeldReleases&) = delete;

  const DeviceDriver& table() const { return table_; }

  void Hold();
  void GiveBack();

  // Holds while it lives.
  class Scope {
   public:
    explicit Scope(HeldReleases& releases) : releases_(releases) { releases_.Hold(); }
    ~Scope() { releases_.GiveBack(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    HeldReleases& releases_;
  };

 private:
  struct Held;

  std::shared_ptr<Held> held_;
  DeviceDriver table_;
};

}  // namespace pulse
