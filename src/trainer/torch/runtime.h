// LibTorch's process-wide settings.
#pragma once

namespace pulse {

// Once per process is enough, more does no harm: refuses operations without a deterministic body,
// and tells malloc to keep freed memory (M_MMAP_THRESHOLD and M_TRIM_THRESHOLD). Tensors of 0.1 to
// 10 MB come and go by the thousand per second; keeping their pages spares five in six of the page
// faults.
void ConfigureLibTorch();

// For the calling thread and what it starts; cheap, so every entry point calls it.
void SetLibTorchThreads(int threads);

// Whether BF16 matrix products are the fast ones here: the CPU has AVX-512 BF16 instructions.
// Without them oneDNN 2.6 emulates, and without AVX-512 LibTorch 1.13 runs plain loops: 80 and 500
// times slower.
bool HasFastBF16();

}  // namespace pulse
