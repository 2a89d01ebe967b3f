// A version of one large BF16 tensor, encoded on the GPU and rebuilt there, by codec: seconds of
// all of it (the bus included, as a publisher and a follower wait for it) and against the time of
// the card's own copy of the tensor, measured in this run.
//
// Usage: codec_gpu_bench [bytes of the tensor, default 4 GiB] [changed words per 10,000, default
// 100] Prints a table; 2 where something fails, or the rebuilt words are not the new ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "codec/device/delta_coder.h"
#include "core/rng.h"
#include "core/workers.h"
#include "device/cuda_driver.h"
#include "kernels/cuda/cuda_kernels.h"

namespace pulse {
namespace {

constexpr int kRuns = 5;

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "codec_gpu_bench: %s\n", std::string(ToStd(status.message())).c_str());
  std::exit(2);
}

// Weights as language models have them; of each 10,000 about `moved` go one unit in the last place.
void FillViews(std::vector<uint16_t>& before, std::vector<uint16_t>& after, uint32_t moved) {
  Workers workers(16);
  RunRanges(workers, before.size(), 1 << 20, [&](uint64_t begin, uint64_t end) {
    Rng rng(1, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(begin >> 20)});
    for (uint64_t i = begin; i < end; ++i) {
      const auto word = static_cast<uint16_t>(std::bit_cast<uint32_t>(rng.Normal() * 0.02f) >> 16);
      before[i] = word;
      const bool moves = rng.Below(10'000) < moved;
      after[i] = static_cast<uint16_t>(!moves ? word : word + rng.Below(2) * 2 - 1);
    }
  });
}

template <typename Body>
double MedianSeconds(const Clock& clock, Body body) {
  std::vector<double> seconds;
  for (int run = -1; run < kRuns; ++run) {
    const int64_t begin = clock.NowNs();
    body();
    if (run >= 0) seconds.push_back(static_cast<double>(clock.NowNs() - begin) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRuns / 2];
}

int Run(uint64_t bytes, uint32_t moved) {
  RealClock clock;
  const DeviceDriver driver = CudaDriver();
  Check(SelectCudaDevice(driver, 0));
  const kernels::DeviceKernels kernels = kernels::CudaKernels();
  std::vector<uint16_t> before(bytes / 2), after(bytes / 2);
  FillViews(before, after, moved);
  auto opened = DeviceWork::Open(driver, clock);
  Check(opened.status());
  DeviceWork work = *std::move(opened);
  DeviceRoom rooms[3];
  DeviceSpan<uint16_t> was, is, rebuilt;
  for (int i = 0; i < 3; ++i) {
    auto room = rooms[i].Get<uint16_t>(driver, before.size());
    Check(room.status());
    (i == 0 ? was : i == 1 ? is : rebuilt) = *room;
  }
  Check(work.Up(std::span<const uint16_t>(before), was, Deadline::Never()));
  Check(work.Up(std::span<const uint16_t>(after), is, Deadline::Never()));
  const double copy = MedianSeconds(clock, [&] {
    Check(work.Copy<uint16_t>(was, rebuilt));
    Check(work.Wait(Deadline::Never()));
  });
  std::printf("%s\n%.2f GB of BF16, %.2f %% changed; the card's own copy %.2f ms\n",
              ProbeCuda().words.c_str(), static_cast<double>(bytes) * 1e-9, moved / 100.0,
              copy * 1e3);
  std::printf("%-8s %14s %12s %14s %12s %14s\n", "codec", "bytes a change", "encode ms",
              "x the copy", "rebuild ms", "x the copy");
  DeviceDeltaCoder coder(work, kernels);
  for (const CodecId codec : {CodecId::kWordDeltaFast, CodecId::kWordDeltaSmall}) {
    std::vector<WordDelta> pieces;
    const double encode = MedianSeconds(clock, [&] {
      auto encoded = coder.Encode(codec, DType::kBF16, DeviceBytes(was), DeviceBytes(is),
                                  uint64_t{1} << 20, Deadline::Never());
      Check(encoded.status());
      pieces = *std::move(encoded);
    });
    // Without the copy that makes the words old again.
    const double both = MedianSeconds(clock, [&] {
      Check(work.Copy<uint16_t>(was, rebuilt));
      Check(coder.Apply(codec, DType::kBF16, pieces.front().bytes, WritableBytes(rebuilt),
                        Deadline::Never()));
    });
    std::vector<uint16_t> back(before.size());
    Check(work.Down<uint16_t>(rebuilt, std::span(back), Deadline::Never()));
    if (back != after) {
      std::fprintf(stderr, "codec_gpu_bench: the rebuilt words are not the new ones\n");
      return 2;
    }
    const WordDelta& delta = pieces.front();
    std::printf("%-8s %14.2f %12.2f %14.1f %12.2f %14.1f\n",
                codec == CodecId::kWordDeltaFast ? "fast" : "small",
                static_cast<double>(delta.bytes.size()) /
                    static_cast<double>(std::max<uint64_t>(delta.changed, 1)),
                encode * 1e3, encode / copy, (both - copy) * 1e3, (both - copy) / copy);
  }
  return 0;
}

}  // namespace
}  // namespace pulse

int main(int argc, char** argv) {
  const uint64_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : uint64_t{4} << 30;
  const unsigned long moved = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100;
  if (bytes < (uint64_t{2} << 20) || moved > 10'000) {
    std::fprintf(stderr,
                 "usage: codec_gpu_bench [bytes, at least 2097152] [of 10,000, at most all]\n");
    return 2;
  }
  return pulse::Run(bytes / 2 * 2, static_cast<uint32_t>(moved));
}
