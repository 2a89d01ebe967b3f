// Threads that wait for work: for loops over arrays whose parts do not depend on each other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pulse {

// One loop at a time; Run is for one thread. The threads sleep between loops.
class Workers {
 public:
  // threads >= 1, the caller of Run included: with 1 there are no others.
  explicit Workers(size_t threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t threads() const { return threads_.size() + 1; }

  // Calls work(part) once for each part in [0, parts), on all threads, and returns when all are
  // done. Which thread takes which part is left open; `work` must not throw.
  void Run(size_t parts, const std::function<void(size_t part)>& work);

 private:
  void Help();
  void TakeParts(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::function<void(size_t)>* work_ = nullptr;  // null: nothing to do
  size_t parts_ = 0;
  size_t next_ = 0;
  size_t running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Calls work(begin, end) for consecutive ranges that cover [0, n): one for each thread, as even as
// `granule` allows, of which all begins are multiples. What `work` does to an element must not
// depend on the range that it lies in; then the result is the same for any number of threads.
void RunRanges(Workers& workers, uint64_t n, uint64_t granule,
               const std::function<void(uint64_t begin, uint64_t end)>& work);

}  // namespace pulse
