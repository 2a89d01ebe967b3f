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

// Uneven, and the last one empty where there is more than one.
std::vector<ElementRange> Cut(uint64_t elements, uint32_t count) {
  std::vector<ElementRange> shards;
  for (uint64_t begin = 0, r = 0; r < count; ++r) {
    const uint64_t end = r + 2 >= count ? elements : begin + (elements - begin) / (r + 2);
    shards.push_back({begin, end});
    begin = end;
  }
  return shards;
}

// Runs body(ranks, index) for each of `count` ranks.
void OnRanks(uint32_t count, uint64_t elements,
             const std::function<void(TrainerRanks&, uint32_t)>& body) {
  auto group = MakeInProcessGroup(static_cast<int>(count));
  ASSERT_TRUE(group.ok());
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      TrainerRanks ranks((*group)[r].get(), Cut(elements, count), Add(),
                         1000);  // in several segments
      body(ranks, r);
    });
  }
  for (std::thread& thread : threads) thread.join();
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
  TrainerRanks alone(nullptr, {{0, 10}}, Add(), 1);
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

TEST(GatherDigests, KeepsTheOrderOfTheRanks) {
  auto group = MakeInProcessGroup(3);
  ASSERT_TRUE(group.ok());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      std::vector<Digest> mine(r);  // none, one, two
      for (Digest& digest : mine) digest.bytes[0] = static_cast<uint8_t>(r);
      const auto all = GatherDigests(*(*group)[r], mine, Deadline::Never());
      ASSERT_TRUE(all.ok()) << all.status();
      ASSERT_EQ(all->size(), 3u);
      EXPECT_EQ((*all)[0].bytes[0], 1);
      EXPECT_EQ((*all)[2].bytes[0], 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
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
