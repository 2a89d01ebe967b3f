#include "kernels/cuda/launch_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/sparse_update.h"
#include "kernels/cuda/on_host.h"

namespace pulse::kernels {
namespace {

// Counts how often each element is visited, and by which width.
struct CountOp {
  std::vector<int>* visits;
  std::vector<int>* packs;

  template <int N>
  void Run(uint64_t at) const {
    ++(*packs)[N == 1 ? 0 : 1];
    for (int i = 0; i < N; ++i) ++visits->at(at + static_cast<uint64_t>(i));
  }
};

TEST(ElementPlan, VisitsEveryElementOnceWhateverTheGrid) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 127, 128, 129, 511, 512, 513, 4097}) {
    for (const uint32_t packs_per_thread : {1, 3}) {
      std::vector<int> visits(n), packs(2);
      const ElementPlan plan = PlanElements(n, 4, 32, packs_per_thread);
      RunElementsOnHost<4>(CountOp{&visits, &packs}, plan);
      EXPECT_EQ(visits, std::vector<int>(n, 1)) << n;
      EXPECT_EQ(packs, (std::vector<int>{static_cast<int>(n % 4), static_cast<int>(n / 4)}));
    }
  }
}

TEST(ElementPlan, OfNothingLaunchesNothing) {
  EXPECT_EQ(PlanElements(0, 4).blocks, 0u);
}

// Records the first and last elements that threads visit in a grid too large to run.
struct RangeOp {
  uint64_t* least;
  uint64_t* most;

  template <int N>
  void Run(uint64_t at) const {
    *least = std::min(*least, at);
    *most = std::max(*most, at + N - 1);
  }
};

TEST(ElementPlan, CountsBeyond32BitsOfElementsAndOfBytes) {
  for (const uint64_t n : {(uint64_t{1} << 31) + 5, (uint64_t{1} << 32) + 3, uint64_t{1} << 40}) {
    const ElementPlan plan = PlanElements(n, 4);
    const uint64_t threads = uint64_t{plan.blocks} * plan.threads;
    EXPECT_GE(threads * kPacksPerThread * 4, n);
    EXPECT_LT((threads - plan.threads) * kPacksPerThread * 4, n) << "no block too many";
    uint64_t least = n, most = 0;
    // The thread that has the last pack, and the one that has the last single element.
    for (const uint64_t thread : {uint64_t{0}, (n / 4 - 1) % threads, (n % 4 + 3) % 4}) {
      RunThread<4>(RangeOp{&least, &most}, plan, thread);
    }
    EXPECT_EQ(least, 0u);
    EXPECT_EQ(most, n - 1);
  }
}

TEST(ElementPlan, KeepsWithinTheGridOfCuda) {
  const ElementPlan plan = PlanElements(~uint64_t{0}, 1);
  EXPECT_EQ(plan.blocks, kMaxGridBlocks);
}

TEST(TilePlan, CoversTensorsBeyond32Bits) {
  const uint64_t n = (uint64_t{1} << 33) + 1;
  const TilePlan plan = PlanTiles(n);
  EXPECT_EQ(plan.tiles, (uint64_t{1} << 33) / kTileElements + 1);
  EXPECT_EQ(CompactScratchBytes(n), (uint64_t{plan.tiles} + 32) * 16);
  EXPECT_EQ(PlanTiles(kMaxCompactElements).tiles, kMaxTiles);
}

// Remembers the one element it is asked about behind 2^32, and what it emits.
struct FarOp {
  static constexpr int kPack = 4;
  struct Item {};
  uint64_t wanted;
  uint32_t* position;

  template <int N>
  uint32_t Examine(uint64_t at, Item*) const {
    return at <= wanted && wanted < at + N ? 1u << (wanted - at) : 0;
  }
  void Emit(uint64_t, uint32_t at, const Item&) const { *position = at; }
};

TEST(TilePlan, PositionsBeyond32BitsAreRelativeToTheirBlock) {
  const uint64_t n = (uint64_t{1} << 33) + 7;
  for (const uint64_t wanted : {uint64_t{5}, (uint64_t{1} << 32) + 12345, n - 1, n - 3}) {
    uint32_t position = ~uint32_t{0};
    const FarOp op{wanted, &position};
    ThreadItems<FarOp, 4> items;
    const uint32_t kept =
        items.Examine(op, PlanTiles(n), static_cast<uint32_t>(wanted / kTileElements),
                      static_cast<uint32_t>(wanted % kTileElements / kTileItems));
    EXPECT_EQ(kept, 1u);
    items.Emit(op, 0);
    EXPECT_EQ(position, wanted % kSparseBlockElements);
  }
}

TEST(TilePlan, TilesLieInOneBlockOfASparseUpdate) {
  EXPECT_EQ(kScatterBlockElements, kSparseBlockElements);
  EXPECT_EQ(kScatterBlockElements % kTileElements, 0u);
}

TEST(ScatterShare, SharesOutEveryEntryOfEveryBlockOnce) {
  const uint64_t blocks = 3, entries = 1000;
  std::vector<int> visits(blocks * entries);
  for (uint64_t cuda_block = 0; cuda_block < blocks * 2; ++cuda_block) {
    for (uint32_t thread = 0; thread < 32; ++thread) {
      const ScatterShare share = ShareOfScatter(cuda_block, thread, 32, 2);
      for (uint64_t i = share.first; i < entries; i += share.step) {
        ++visits.at(share.block * entries + i);
      }
    }
  }
  EXPECT_EQ(visits, std::vector<int>(blocks * entries, 1));
}

}  // namespace
}  // namespace pulse::kernels
