#include "loco/trainer_ranks.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "collective/in_process.h"
#include "kernels/kernels.h"

namespace pulse::loco {
namespace {

constexpr float kBig = 0x1p24f;  // swallows a 1 that is added to it

kernels::AddDenseFn Add() {
  return kernels::ChooseKernels("auto")->reduce.add_dense;
}

// Runs body(ranks, index) for each of `count` ranks.
void OnRanks(uint32_t count, uint64_t elements,
             const std::function<void(TrainerRanks&, uint32_t)>& body) {
  auto group = MakeInProcessGroup(static_cast<int>(count));
  ASSERT_TRUE(group.ok());
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      TrainerRanks ranks((*group)[r].get(), elements, Add(), 1000);  // in several segments
      body(ranks, r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ShardRange, CutsWithoutGapsIntoEqualLengths) {
  for (const uint64_t elements : {0, 1, 15, 16, 17, 160, 1037, 4096}) {
    for (const uint32_t shards : {1u, 2u, 3u, 8u, 64u}) {
      uint64_t at = 0;
      for (uint32_t shard = 0; shard < shards; ++shard) {
        const ElementRange range = ShardRange(elements, shards, shard);
        EXPECT_EQ(range.begin, at);
        EXPECT_LE(range.length(), ShardRange(elements, shards, 0).length());
        EXPECT_LE(range.length(), elements / shards + (shards == 1 ? 0 : kShardElements));
        at = range.end;
      }
      EXPECT_EQ(at, elements) << shards;
    }
  }
}

TEST(TreeSum, AddsTheHalvesOfTheHalves) {
  // ((big + 1) + (-big + 1)): each 1 is lost. In order, (big + 1 - big) + 1 would be 1.
  TreeSum sum(Add());
  for (const float leaf : {kBig, 1.0f, -kBig, 1.0f}) sum.Add({leaf});
  EXPECT_EQ(sum.Finish(), std::vector<float>{(kBig + 1.0f) + (-kBig + 1.0f)});
  sum.Add({3});
  EXPECT_EQ(sum.Finish(), std::vector<float>{3});
  for (int leaf = 1; leaf <= 8; ++leaf) sum.Add({static_cast<float>(leaf), 1});
  EXPECT_EQ(sum.Finish(), (std::vector<float>{36, 8}));
}

TEST(TrainerRanks, AreAllOnlyIfEveryOneIs) {
  OnRanks(3, 10, [](TrainerRanks& ranks, uint32_t r) {
    EXPECT_TRUE(*ranks.All(true, Deadline::Never()));
    EXPECT_FALSE(*ranks.All(r != 2, Deadline::Never()));
  });
  TrainerRanks alone(nullptr, 10, Add(), 1);
  EXPECT_TRUE(*alone.All(true, Deadline::Never()));
  EXPECT_FALSE(*alone.All(false, Deadline::Never()));
}

TEST(TrainerRanks, GatherWhatTheyHaveOfAnArray) {
  for (const uint64_t elements : {1, 16, 37, 1037}) {
    OnRanks(4, elements, [&](TrainerRanks& ranks, uint32_t) {
      std::vector<float> shard(ranks.range().length()), whole(elements, -1);
      for (size_t i = 0; i < shard.size(); ++i) {
        shard[i] = static_cast<float>(ranks.range().begin + i);
      }
      ASSERT_TRUE(ranks.Gather(shard, whole, Deadline::Never()).ok());
      for (size_t i = 0; i < elements; ++i) EXPECT_EQ(whole[i], static_cast<float>(i));
    });
  }
}

// One rank with all leaves, two with half of them each, four with one each: the same bits.
TEST(TrainerRanks, ReduceAsATreeThatDoesNotDependOnTheirNumber) {
  constexpr uint64_t kElements = 1037;
  const auto leaf = [](uint32_t number) {
    std::vector<float> values(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      const float role = static_cast<float>((number + i) % 3) - 1;
      values[i] = role * kBig + static_cast<float>(i % 7);
    }
    return values;
  };
  TreeSum expected(Add());
  for (uint32_t i = 0; i < 4; ++i) expected.Add(leaf(i));
  const std::vector<float> sum = expected.Finish();
  for (const uint32_t count : {2u, 4u}) {
    OnRanks(count, kElements, [&](TrainerRanks& ranks, uint32_t r) {
      TreeSum mine(Add());
      for (uint32_t i = 0; i < 4 / count; ++i) mine.Add(leaf(r * (4 / count) + i));
      std::vector<float> shard(ranks.range().length());
      ASSERT_TRUE(ranks.ReduceScatter(mine.Finish(), shard, Deadline::Never()).ok());
      for (size_t i = 0; i < shard.size(); ++i) {
        ASSERT_EQ(shard[i], sum[ranks.range().begin + i]);
      }
    });
  }
}

}  // namespace
}  // namespace pulse::loco
