// N neighbouring elements moved by one access, on the device one load or store of up to 16 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/arithmetic/canonical.h"

namespace pulse::kernels {

inline constexpr int kPackBytes = 16;  // the widest access of one thread

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T x[N];
};

// `at` aligned to N elements (N = 1: to the element).
template <int N, typename T>
PULSE_HOST_DEVICE inline Pack<T, N> LoadPack(const T* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Pack<T, N>*>(at);
#else
  Pack<T, N> pack;
  std::memcpy(&pack, at, sizeof(pack));
  return pack;
#endif
}

template <typename T, int N>
PULSE_HOST_DEVICE inline void StorePack(T* at, const Pack<T, N>& pack) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Pack<T, N>*>(at) = pack;
#else
  std::memcpy(at, &pack, sizeof(pack));
#endif
}

// Whether packs of kPackBytes at multiples of kPackBytes from here are aligned, for all addresses.
template <typename... T>
bool AllAligned(const T*... at) {
  return ((reinterpret_cast<uintptr_t>(at) % kPackBytes == 0) && ...);
}

}  // namespace pulse::kernels
