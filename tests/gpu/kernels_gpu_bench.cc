// Each CUDA kernel's share of the card's own device-to-device copy bandwidth, measured in this run.
//
// Usage: kernels_gpu_bench [bytes of the largest array, default 4 GiB]
// Prints a table; 1 where a scan kernel stays below 85 % of the copy.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "core/clock.h"
#include "core/sparse_update.h"
#include "device/cuda_driver.h"
#include "device/resources.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/adamw_view/adamw_view_cuda.h"
#include "kernels/cast_view/cast_view_cuda.h"
#include "kernels/diff/diff_cuda.h"
#include "kernels/digest/digest_cuda.h"
#include "kernels/gate/gate_cuda.h"
#include "kernels/outer_step/outer_step_cuda.h"
#include "kernels/reduce/reduce_cuda.h"

namespace pulse::kernels {
namespace {

constexpr int kRuns = 9;
constexpr double kTarget = 0.85;

class Bench {
 public:
  Bench() : driver_(CudaDriver()) {}

  int Run(uint64_t bytes);

 private:
  template <typename T>
  DeviceSpan<T> Room(uint64_t n) {
    buffers_.push_back(DeviceBuffer::Open(driver_, n * sizeof(T)).value());
    const DeviceSpan<uint8_t> all = buffers_.back().span();
    Check(driver_.fill(all.data, 0, all.size, stream_.get()));
    return {reinterpret_cast<T*>(all.data), n};
  }
  void Check(DeviceCode code) {
    if (code == 0) return;
    std::fprintf(stderr, "kernels_gpu_bench: %s\n", driver_.describe(code).c_str());
    std::exit(2);
  }
  void Wait() {
    Check(driver_.record(event_.get(), stream_.get()));
    DeviceCode code = kDeviceNotReady;
    while (code == kDeviceNotReady) code = driver_.query(event_.get());
    Check(code);
  }
  // Median seconds over kRuns, after one run that does not count. Host clock: at 1 to 4 GB a run
  // takes a millisecond, a launch and a poll a hundredth of that.
  double Seconds(const std::function<DeviceCode()>& launch) {
    std::vector<double> seconds;
    for (int run = -1; run < kRuns; ++run) {
      Wait();
      const int64_t begin = clock_.NowNs();
      Check(launch());
      Wait();
      if (run >= 0) seconds.push_back(static_cast<double>(clock_.NowNs() - begin) * 1e-9);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kRuns / 2];
  }
  // moved: bytes read and written.
  bool Report(const char* name, uint64_t moved, bool is_scan,
              const std::function<DeviceCode()>& launch) {
    const double rate = static_cast<double>(moved) / Seconds(launch);
    const double share = rate / copy_rate_;
    const bool reached = !is_scan || share >= kTarget;
    std::printf("%-22s %8.2f %10.0f %8.1f %%%s\n", name, static_cast<double>(moved) * 1e-9,
                rate * 1e-9, 100 * share, reached ? "" : "  below 85 %");
    return reached;
  }

  RealClock clock_;
  DeviceDriver driver_;
  OwnedStream stream_;
  OwnedEvent event_;
  std::vector<DeviceBuffer> buffers_;
  double copy_rate_ = 0;
};

int Bench::Run(uint64_t bytes) {
  const Status selected = SelectCudaDevice(driver_, 0);
  if (!selected.ok()) {
    std::fprintf(stderr, "kernels_gpu_bench: %s\n", std::string(selected.message()).c_str());
    return 2;
  }
  stream_ = OwnedStream::Open(driver_).value();
  event_ = OwnedEvent::Open(driver_).value();
  std::printf("%s\n%-22s %8s %10s %10s\n", ProbeCuda().words.c_str(), "kernel", "GB moved", "GB/s",
              "of copy");
  bool reached = true;
  for (const uint64_t size : {bytes / 4, bytes}) {
    const uint64_t n = size / 4;
    buffers_.clear();
    const auto a = Room<float>(n), b = Room<float>(n), c = Room<float>(n), d = Room<float>(n);
    const auto half = Room<uint16_t>(n);
    const DeviceStream s = stream_.get();
    copy_rate_ = 2 * static_cast<double>(size) /
                 Seconds([&] { return driver_.copy(b.data, a.data, size, s); });
    std::printf("%-22s %8.2f %10.0f\n", "copy, device to device",
                2 * static_cast<double>(size) * 1e-9, copy_rate_ * 1e-9);
    const CompactTarget target{Room<uint64_t>(SparseBlocksFor(n) + 1), Room<uint32_t>(n),
                               Room<uint8_t>(CompactScratchBytes(n))};
    const auto values = Room<float>(n);
    const DeviceSpan<const uint8_t> a_bytes{reinterpret_cast<uint8_t*>(a.data), size},
        b_bytes{reinterpret_cast<uint8_t*>(b.data), size};
    const CompactTarget of_words{Room<uint64_t>(SparseBlocksFor(2 * n) + 1), Room<uint32_t>(2 * n),
                                 Room<uint8_t>(CompactScratchBytes(2 * n))};
    reached &= Report("cast_view", 6 * n, true, [&] { return CastToBF16Cuda(a, half, s); });
    reached &= Report("diff, 2-byte words", 2 * size, true,
                      [&] { return DiffCuda(a_bytes, b_bytes, 2, of_words, s); });
    const auto end = Room<uint64_t>(1);
    Check(driver_.copy(end.data, &n, sizeof(n), s));
    Wait();
    static_assert(static_cast<int>(GateView::kBF16) == 0);
    const DeviceViewRuns run{end.data, Room<uint8_t>(1).data, 1};  // one, of BF16
    const GateRunsOp gate{run,        0,      false,  GateRunsOp::kExact,
                          a.data,     b.data, c.data, target.positions.data,
                          values.data};
    reached &= Report("gate, nothing visible", 16 * n, true,
                      [&] { return GateRunsCuda(gate, n, target, s); });
    reached &= Report("add_dense", 12 * n, true, [&] { return AddDenseCuda(a, b, s); });
    reached &= Report("outer_step", 20 * n, true, [&] { return OuterStepCuda({}, a, b, c, s); });
    const AdamWScalars scalars = AdamWScalars::At({}, 1);
    reached &= Report("adamw", 28 * n, true, [&] { return AdamWCuda(scalars, {a, b, c, d}, s); });
    reached &= Report("adamw + view + diff", 30 * n, true, [&] {
      return AdamWViewCuda(scalars, {a, b, c, d}, half, target, s);
    });
    const auto digests = Room<uint8_t>(size >> 20 << 4);
    reached &= Report("digest", size >> 20 << 20, false, [&] {
      return ChunkDigestsCuda(a_bytes.first(size >> 20 << 20), digests, s);
    });
  }
  return reached ? 0 : 1;
}

}  // namespace
}  // namespace pulse::kernels

int main(int argc, char** argv) {
  const uint64_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : uint64_t{4} << 30;
  if (bytes < (uint64_t{4} << 20)) {
    std::fprintf(stderr, "usage: kernels_gpu_bench [bytes, at least 4194304]\n");
    return 2;
  }
  pulse::kernels::Bench bench;
  return bench.Run(bytes / 16 * 16);
}
