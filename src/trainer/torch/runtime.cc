#include "trainer/torch/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>

namespace pulse {

void ConfigureLibTorch() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // more than a step of the largest model here ever holds
}

void SetLibTorchThreads(int threads) {
  at::set_num_threads(threads);
}

bool HasFastBF16() {
  return __builtin_cpu_supports("avx512bf16") != 0;
}

}  // namespace pulse
