// A rank at long work between rounds (publishing to a slow store, a checkpoint's slow disk) tells
// the others so, that they go on waiting for it, and only for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "core/clock.h"
#include "core/status.h"

namespace pulse::loco {

struct BusySignalOptions {
  int64_t interval_ms = 0;  // from one word to the next; below the others' deadline
  int64_t longest_ms = 0;   // after this there are no more words: the work counts as hung
};

// From its construction to End, a thread of its own calls `tell`, which meets the other ranks in
// this one's place, first after one interval: short work costs no meeting. So the work runs on the
// caller's thread, which must leave the communicator alone meanwhile.
class BusySignal {
 public:
  // clock must outlive this. tell: its first error is the last call.
  BusySignal(const Clock& clock, BusySignalOptions options, std::function<Status()> tell);
  ~BusySignal();
  BusySignal(const BusySignal&) = delete;
  BusySignal& operator=(const BusySignal&) = delete;

  // Waits for the word under way; if any was said, says a last one, from which the others count
  // anew. The error of `tell`, if any.
  Status End();

 private:
  void Run();
  void Stop();

  const Clock& clock_;
  const BusySignalOptions options_;
  const std::function<Status()> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  bool told_ = false;  // the thread's, and after its end the caller's, as is status_
  Status status_;
  std::thread thread_;
};

}  // namespace pulse::loco
