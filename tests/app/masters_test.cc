// The first of a trainer's ranks reads weights that lie on all of them.
#include "app/masters.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "collective/fault_injecting.h"
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

// work: the first rank's. Returns the status of each.
std::vector<Status> OnRanks(uint32_t count, const std::function<Status(const Masters&)>& work,
                            const CommunicatorFaultPlan& of_the_first = {}) {
  const ModelSchema schema = Schema();
  RealClock clock;
  auto group = MakeInProcessGroup(static_cast<int>(count)).value();
  const auto shards = CutIntoShards(schema, count);
  std::vector<Status> results(count);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      FaultInjectingCommunicator communicator(
          std::move(group[r]), r == 0 ? of_the_first : CommunicatorFaultPlan(), clock);
      std::vector<float> theta(shards[r].length());
      for (size_t i = 0; i < theta.size(); ++i) theta[i] = ValueAt(shards[r].begin + i);
      const MastersParts parts = {
          count == 1 ? nullptr : &communicator, schema, theta, shards[r].begin, clock, kTimeoutMs};
      results[r] = r > 0 ? ServeMasters(parts) : WithMasters(parts, work);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Masters, AreReadCellByCellFromWhoeverHasThem) {
  for (const uint32_t ranks : {1u, 2u, 3u, 40u}) {
    SCOPED_TRACE(ranks);
    const auto results = OnRanks(ranks, [](const Masters& masters) -> Status {
      Bytes scratch;
      uint64_t at = 0;
      for (const TensorRange& cell : AllCells(masters.schema())) {
        PULSE_ASSIGN_OR_RETURN(const ByteView bytes, masters.Read(cell, scratch));
        EXPECT_EQ(bytes.size(), cell.bytes());
        const auto* values = reinterpret_cast<const float*>(bytes.data());
        for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
          if (values[i] != ValueAt(at + i)) return Internal("element {}", at + i);
        }
        at += bytes.size() / sizeof(float);
      }
      EXPECT_EQ(at, masters.schema().elements());
      return OkStatus();
    });
    for (const Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Masters, AreGatheredWhereSomeoneNeedsThemAll) {
  for (const uint32_t ranks : {1u, 3u}) {
    const auto results = OnRanks(ranks, [&](const Masters& masters) -> Status {
      std::vector<float> room;
      PULSE_ASSIGN_OR_RETURN(const auto all, masters.All(room));
      EXPECT_EQ(all.size(), masters.schema().elements());
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] != ValueAt(i)) return Internal("element {}", i);
      }
      EXPECT_EQ(room.empty(), ranks == 1) << "one rank's own need no copy";
      return OkStatus();
    });
    for (const Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Masters, LetTheOthersGoOnWhereTheFirstRankFails) {
  const auto results = OnRanks(3, [](const Masters&) { return Unavailable("no disk"); });
  EXPECT_TRUE(absl::IsUnavailable(results[0])) << results[0];
  EXPECT_TRUE(results[1].ok() && results[2].ok());
}

TEST(Masters, AreRefusedWhereABitOfThemFlippedOnTheWay) {
  const auto results =
      OnRanks(2,
              [](const Masters& masters) -> Status {
                Bytes scratch;
                return masters.Read({3, 0, 400'000}, scratch).status();
              },
              {{.operation = 1, .action = CommunicatorFault::Action::kFlipBit, .bit = 77}});
  EXPECT_TRUE(absl::IsDataLoss(results[0])) << results[0];
}

}  // namespace
}  // namespace pulse
