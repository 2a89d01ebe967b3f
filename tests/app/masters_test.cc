// The first of a trainer's ranks reads weights that lie on all of them.
#include "app/masters.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "collective/in_process.h"
#include "core/shards.h"

namespace pulse {
namespace {

constexpr int64_t kTimeoutMs = 20'000;

// Of several cells (4 Mi elements) and shards that end inside of them.
ModelSchema Schema() {
  auto schema = ModelSchema::Make({{"a", DType::kF32, {5'000'003}},
                                   {"b", DType::kF32, {}},
                                   {"c", DType::kF32, {0}},
                                   {"d", DType::kF32, {700'000}}});
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

float ValueAt(uint64_t element) {
  return static_cast<float>(element % 16'777'213);
}

// work: the first rank's. Returns the statuses of the others.
std::vector<Status> OnRanks(uint32_t count, const std::function<void(const Masters&)>& work) {
  const ModelSchema schema = Schema();
  const RealClock clock;
  auto group = MakeInProcessGroup(static_cast<int>(count)).value();
  const auto shards = CutIntoShards(schema, count);
  std::vector<Status> served(count);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<Communicator> communicator = std::move(group[r]);
      std::vector<float> theta(shards[r].length());
      for (size_t i = 0; i < theta.size(); ++i) theta[i] = ValueAt(shards[r].begin + i);
      const MastersParts parts = {count == 1 ? nullptr : communicator.get(),
                                  schema,
                                  theta,
                                  shards[r].begin,
                                  clock,
                                  kTimeoutMs};
      if (r > 0) {
        served[r] = ServeMasters(parts);
      } else {
        work(Masters(parts));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return served;
}

TEST(Masters, AreReadCellByCellFromWhoeverHasThem) {
  for (const uint32_t ranks : {1u, 2u, 3u, 40u}) {
    SCOPED_TRACE(ranks);
    const auto served = OnRanks(ranks, [](const Masters& masters) {
      Bytes scratch;
      uint64_t at = 0;
      for (const TensorRange& cell : AllCells(masters.schema())) {
        const auto bytes = masters.Read(cell, scratch);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(bytes->size(), cell.bytes());
        const auto* values = reinterpret_cast<const float*>(bytes->data());
        for (size_t i = 0; i < bytes->size() / sizeof(float); ++i) {
          ASSERT_EQ(values[i], ValueAt(at + i));
        }
        at += bytes->size() / sizeof(float);
      }
      EXPECT_EQ(at, masters.schema().elements());
      EXPECT_TRUE(masters.End().ok());
    });
    for (const Status& status : served) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Masters, AreGatheredWhereSomeoneNeedsThemAll) {
  for (const uint32_t ranks : {1u, 3u}) {
    OnRanks(ranks, [&](const Masters& masters) {
      std::vector<float> room;
      const auto all = masters.All(room);
      ASSERT_TRUE(all.ok()) << all.status();
      ASSERT_EQ(all->size(), masters.schema().elements());
      for (size_t i = 0; i < all->size(); ++i) ASSERT_EQ((*all)[i], ValueAt(i));
      EXPECT_EQ(room.empty(), ranks == 1) << "one rank's own need no copy";
      EXPECT_TRUE(masters.End().ok());
    });
  }
}

TEST(Masters, OfAFirstRankThatIsGoneAreWaitedForNoLonger) {
  const auto served = OnRanks(2, [](const Masters&) {});
  EXPECT_FALSE(served[1].ok());
}

}  // namespace
}  // namespace pulse
