// Work on many pieces with several threads, results taken in order: so that what is written does
// not depend on who was faster.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/status.h"

namespace pulse {

// Calls make_worker() once per thread; each worker maps an index to StatusOr<Result>.
// consume(index, result) is called by the calling thread, for 0, 1, 2, ... in turn. At most two
// results per thread wait. Stops at the first error in index order and returns it.
template <typename Result, typename MakeWorker, typename Consume>
Status ProduceInOrder(size_t count, int threads, const MakeWorker& make_worker,
                      const Consume& consume) {
  if (threads <= 1 || count <= 1) {
    auto worker = make_worker();
    for (size_t i = 0; i < count; ++i) {
      PULSE_ASSIGN_OR_RETURN(Result result, worker(i));
      PULSE_RETURN_IF_ERROR(consume(i, std::move(result)));
    }
    return OkStatus();
  }

  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0;      // to be started; these four are guarded by mutex
  size_t consumed = 0;  // results taken
  bool stop = false;
  std::map<size_t, StatusOr<Result>> waiting;
  const size_t workers = std::min(static_cast<size_t>(threads), count);

  const auto work = [&] {
    auto worker = make_worker();
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || next >= count || next < consumed + 2 * workers; });
      if (stop || next >= count) return;
      const size_t mine = next++;
      lock.unlock();
      StatusOr<Result> result = worker(mine);
      lock.lock();
      waiting.emplace(mine, std::move(result));
      changed.notify_all();
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 0; i < workers; ++i) pool.emplace_back(work);

  Status status;
  for (size_t i = 0; i < count && status.ok(); ++i) {
    std::optional<StatusOr<Result>> result;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return waiting.contains(i); });
      result = std::move(waiting.extract(i).mapped());
      consumed = i + 1;
      changed.notify_all();
    }
    status = result->ok() ? consume(i, *std::move(*result)) : result->status();
  }
  {
    const std::lock_guard lock(mutex);
    stop = true;
    changed.notify_all();
  }
  for (std::thread& thread : pool) thread.join();
  return status;
}

}  // namespace pulse
