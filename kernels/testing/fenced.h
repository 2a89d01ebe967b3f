// Arrays for tests: whoever reads or writes past the end is killed by an inaccessible page, whoever
// writes before the start is found by its footprints.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

namespace pulse::kernels {

template <typename T>
class Fenced {
 public:
  // n elements that end `shift_bytes` before the inaccessible page; the alignment of the first one
  // follows from n and shift_bytes. Without values the elements start as 0xA5 bytes.
  explicit Fenced(size_t n, size_t shift_bytes = 0) : n_(n), shift_bytes_(shift_bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_bytes_ = (n * sizeof(T) + shift_bytes + kFrontBytes + page - 1) / page * page;
    mapped_bytes_ = usable_bytes_ + page;
    void* at =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED ||
        mprotect(static_cast<uint8_t*>(at) + usable_bytes_, page, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    base_ = static_cast<uint8_t*>(at);
    std::fill(base_, base_ + usable_bytes_, kFill);
  }
  explicit Fenced(std::span<const T> values, size_t shift_bytes = 0)
      : Fenced(values.size(), shift_bytes) {
    std::copy_n(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes(), first());
  }
  ~Fenced() { munmap(base_, mapped_bytes_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  T* data() { return reinterpret_cast<T*>(first()); }
  std::span<T> span() { return {data(), n_}; }

  // No byte around the elements has been written.
  bool FenceIsIntact() const {
    const auto untouched = [](uint8_t byte) { return byte == kFill; };
    return std::all_of(base_, first(), untouched) &&
           std::all_of(first() + n_ * sizeof(T), base_ + usable_bytes_, untouched);
  }

 private:
  static constexpr uint8_t kFill = 0xA5;
  static constexpr size_t kFrontBytes = 64;  // one widest vector

  uint8_t* first() const { return base_ + usable_bytes_ - shift_bytes_ - n_ * sizeof(T); }

  size_t n_;
  size_t shift_bytes_;
  size_t usable_bytes_;
  size_t mapped_bytes_;
  uint8_t* base_;
};

}  // namespace pulse::kernels
