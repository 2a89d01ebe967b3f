// The buffers of an exchange stay within the bound that it was given: every byte that this program
// allocates is counted. A binary of its own, since it replaces operator new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "collective/checked.h"
#include "collective/in_process.h"
#include "loco/exchange/adaptive.h"
#include "loco/exchange/exchange_conformance.h"

namespace {

std::atomic<int64_t> live_bytes = 0, most_bytes = 0;

void* Allocate(size_t bytes, size_t alignment) {
  void* const memory =
      alignment > 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                    : std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  const auto usable = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t live = live_bytes.fetch_add(usable) + usable;
  for (int64_t most = most_bytes; live > most && !most_bytes.compare_exchange_weak(most, live);) {
  }
  return memory;
}

void Release(void* memory) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) {
  return Allocate(bytes, 0);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  Release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  Release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  Release(memory);
}

namespace pulse::loco {
namespace {

constexpr uint64_t kElements = 4 * kSparseBlockElements + 12'345;
constexpr uint64_t kMiB = uint64_t{1} << 20;

class EveryExchange : public testing::TestWithParam<ExchangeKind> {
 protected:
  // The most that all ranks together held beyond what they had, MiB a rank.
  double MostMiB(const ExchangeCase& what, uint64_t memory_bytes, bool sparse) {
    const size_t ranks = what.inputs.size();
    auto group = *MakeInProcessGroup(static_cast<int>(ranks));
    const auto kernels = *kernels::ChooseKernels("auto");
    std::vector<std::vector<float>> sums(ranks, std::vector<float>(kElements));
    for (size_t k = 0; k < ranks && !sparse; ++k) sums[k] = what.inputs[k].dense;
    const std::vector<uint64_t> entries = what.Entries(sparse);
    std::vector<Status> results(ranks);
    std::vector<std::thread> threads;
    const int64_t before = live_bytes;
    most_bytes = before;
    for (size_t k = 0; k < ranks; ++k) {
      threads.emplace_back([&, k] {
        CheckedCommunicator checked(*group[k]);
        const auto exchange =
            MakeExchange(GetParam(), checked, kernels, what.sites(), memory_bytes);
        Contribution mine = what.ContributionOf(k, sparse);
        if (!sparse) mine.dense = sums[k];
        results[k] = exchange->Sum(mine,
                                   {.contributes = what.contributes,
                                    .entries = entries,
                                    .codec = {.name = what.codec},
                                    .theta = what.theta},
                                   sums[k], Deadline::Never());
        if (!results[k].ok()) group[k].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& result : results) EXPECT_TRUE(result.ok()) << result;
    return static_cast<double>(most_bytes - before) / static_cast<double>(ranks * kMiB);
  }
};

TEST_P(EveryExchange, StaysWithinItsBound) {
  for (const double share : {0.05, 0.5}) {
    const ExchangeCase what({0, 0, 1, 1}, kElements, SyntheticData::kNoise, share);
    const bool sparse = GetParam() != ExchangeKind::kDense;
    const double unbounded = MostMiB(what, uint64_t{1} << 40, sparse);
    for (const uint64_t mib : {4, 16, 64}) {
      const double most = MostMiB(what, mib * kMiB, sparse);
      RecordProperty(fmt::format("share {} bound {}", share, mib), fmt::format("{:.2f}", most));
      fmt::print("{} {:.0f} %: bound {} MiB, most {:.2f} MiB; unbounded {:.2f} MiB\n",
                 NameOf(GetParam()), 100 * share, mib, most, unbounded);
      EXPECT_LE(most, static_cast<double>(mib));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryExchange, testing::ValuesIn(kExchangeKinds),
                         [](const auto& at) {
                           std::string name(NameOf(at.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace pulse::loco
