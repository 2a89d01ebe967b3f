// The conformance suite of all exchange algorithms: the canonical fold written down once more,
// element by element, on data where order shows and on data where it does not.
#include "loco/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "collective/checked.h"
#include "collective/fault_injecting.h"
#include "collective/in_process.h"
#include "loco/exchange/adaptive.h"
#include "loco/exchange/exchange_conformance.h"

namespace pulse::loco {
namespace {

struct Output {
  std::vector<float> sum;
  Status status;
  Traffic traffic;
  uint64_t received_by_communicator = 0;
};

struct Setting {
  ExchangeKind kind = ExchangeKind::kDense;
  bool sparse_input = true;
  uint64_t memory_bytes = uint64_t{1} << 40;
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;
  CommunicatorFaultPlan faults = {};  // of rank 1
};

std::vector<Output> RunExchange(const Setting& setting, const ExchangeCase& what) {
  auto group = *MakeInProcessGroup(static_cast<int>(what.inputs.size()),
                                   {.max_message_bytes = setting.max_message_bytes});
  RealClock clock;
  if (group.size() > 1) {
    group[1] =
        std::make_unique<FaultInjectingCommunicator>(std::move(group[1]), setting.faults, clock);
  }
  std::vector<Output> outputs(what.inputs.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < outputs.size(); ++k) {
    threads.emplace_back([&, k] {
      CheckedCommunicator checked(*group[k]);
      const auto exchange = MakeExchange(setting.kind, checked, *kernels::ChooseKernels("auto"),
                                         what.sites(), setting.memory_bytes);
      Output& out = outputs[k];
      out.status = what.Sum(*exchange, k, setting.sparse_input, out.sum);
      out.traffic = exchange->traffic();
      out.received_by_communicator = checked.BytesReceived();
      group[k].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outputs;
}

void ExpectCanonicalSum(const Setting& setting, const ExchangeCase& what) {
  const auto expected = what.Fold();
  const auto outputs = RunExchange(setting, what);
  for (size_t k = 0; k < outputs.size(); ++k) {
    EXPECT_TRUE(outputs[k].status.ok()) << outputs[k].status;
    EXPECT_EQ(Differences(outputs[k].sum, expected), 0u) << "rank " << k;
  }
}

class EveryExchange : public testing::TestWithParam<std::tuple<ExchangeKind, bool>> {
 protected:
  Setting setting() const {
    return {.kind = std::get<0>(GetParam()), .sparse_input = std::get<1>(GetParam())};
  }
};

TEST_P(EveryExchange, ComputesTheCanonicalSumWhateverTheSites) {
  for (const std::vector<uint32_t>& sites : SiteMaps()) {
    for (const SyntheticData data : {SyntheticData::kCancelling, SyntheticData::kExact}) {
      SCOPED_TRACE(fmt::format("{} trainers", sites.size()));
      ExpectCanonicalSum(setting(), {sites, 4001, data, 0.8});
    }
  }
}

TEST_P(EveryExchange, ComputesItOverSeveralBlocks) {
  ExpectCanonicalSum(
      setting(), {{0, 1, 0, 1, 2}, kSparseBlockElements + 1237, SyntheticData::kCancelling, 0.8});
}

TEST_P(EveryExchange, ComputesItWhereSegmentsOverlap) {
  // Above a million entries, in three segments.
  ExpectCanonicalSum(setting(),
                     {{0, 0}, 2 * kSparseBlockElements + 9, SyntheticData::kCancelling, 0.3});
  ExpectCanonicalSum(setting(),
                     {{0, 1, 0}, 2 * kSparseBlockElements, SyntheticData::kCancelling, 0.3});
}

TEST_P(EveryExchange, ComputesItOverArraysShorterThanTheJob) {
  for (const uint64_t elements : {0, 1, 3, 7}) {
    ExpectCanonicalSum(setting(), {{0, 0, 1, 1, 2}, elements, SyntheticData::kCancelling, 0.9});
  }
}

TEST_P(EveryExchange, ComputesItForAJobOf64) {
  std::vector<uint32_t> sites(64);
  for (uint32_t k = 0; k < 64; ++k) sites[k] = k % 5;
  ExpectCanonicalSum(setting(), {sites, 500, SyntheticData::kCancelling, 0.5});
}

TEST_P(EveryExchange, LeavesOutDroppedTrainers) {
  ExchangeCase what({0, 1, 1, 0}, 4001, SyntheticData::kCancelling, 0.9);
  for (const std::vector<uint8_t>& contributes :
       {std::vector<uint8_t>{1, 0, 1, 1}, {0, 1, 0, 1}, {1, 0, 0, 1}, {0, 0, 0, 0}}) {
    what.contributes = contributes;
    ExpectCanonicalSum(setting(), what);
  }
}

TEST_P(EveryExchange, BearsUpdatesWithoutEntries) {
  ExchangeCase what({0, 0, 1, 1}, 4001, SyntheticData::kCancelling, 0.9);
  what.inputs[1] = what.inputs[2] = ExchangeInput(std::vector<float>(4001), {});
  ExpectCanonicalSum(setting(), what);
  for (ExchangeInput& input : what.inputs) input = ExchangeInput(std::vector<float>(4001), {});
  ExpectCanonicalSum(setting(), what);
}

TEST_P(EveryExchange, ComputesItInAnyMemory) {
  const ExchangeCase small({0, 1, 0}, 301, SyntheticData::kCancelling, 0.5);
  for (const uint64_t memory_bytes : {1, 64, 1000, 20'000}) {
    Setting tight = setting();
    tight.memory_bytes = memory_bytes;
    ExpectCanonicalSum(tight, small);
  }
  // Cut at blocks, by where the entries are.
  Setting some = setting();
  some.memory_bytes = uint64_t{40} << 20;
  ExpectCanonicalSum(some,
                     {{0, 1, 0}, 3 * kSparseBlockElements + 5, SyntheticData::kCancelling, 0.3});
}

TEST_P(EveryExchange, KeepsItsMessagesBelowTheMemoryItMayUse) {
  const ExchangeCase what({0, 1, 0}, 4001, SyntheticData::kCancelling, 0.9);
  Setting tight = setting();
  tight.memory_bytes = 8192;
  tight.max_message_bytes = 8192;
  ExpectCanonicalSum(tight, what);
}

TEST_P(EveryExchange, CountsThePayloadThatTheCommunicatorCarries) {
  const ExchangeCase what({0, 1, 0}, 40'000, SyntheticData::kExact, 0.1);
  uint64_t sent = 0, received = 0;
  for (const Output& out : RunExchange(setting(), what)) {
    EXPECT_EQ(out.traffic.received, out.received_by_communicator);
    EXPECT_GT(out.traffic.contribution, 0u);
    sent += out.traffic.sent;
    received += out.traffic.received;
  }
  EXPECT_EQ(sent, received);
}

// A damaged chunk would change the sum alike on all ranks, so no later comparison could find it.
TEST_P(EveryExchange, RefusesEveryDamagedMessage) {
  const ExchangeCase what({0, 1, 1}, 4001, SyntheticData::kCancelling, 0.5);
  for (uint64_t operation = 0;; ++operation) {
    ASSERT_LT(operation, 10u);
    Setting faulty = setting();
    faulty.faults = {
        {.operation = operation, .action = CommunicatorFault::Action::kFlipBit, .bit = 12'345}};
    const auto outputs = RunExchange(faulty, what);
    if (outputs[1].status.ok()) break;  // there are no more operations
    EXPECT_EQ(outputs[1].status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(ToStd(outputs[1].status.message())),
                testing::HasSubstr("to rank 1 (localhost) arrived damaged"));
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryExchange,
                         testing::Combine(testing::ValuesIn(kExchangeKinds), testing::Bool()),
                         [](const auto& at) {
                           std::string name(NameOf(std::get<0>(at.param)));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(at.param) ? "OfSparse" : "OfDense");
                         });

TEST(Traffic, IsWhatTheFormulasSay) {
  constexpr uint64_t kElements = 300'000;
  ExchangeCase what({0, 0, 0}, kElements, SyntheticData::kExact, 0.02);
  what.codec = UpdateCodecName::kFast;  // which partial sums have too: bytes compare
  const auto run = [&](ExchangeKind kind) { return RunExchange({.kind = kind}, what); };
  const auto received = [&](ExchangeKind kind) {
    return static_cast<double>(run(kind)[1].traffic.received);
  };
  const auto all_gather = run(ExchangeKind::kSparseAllGather);
  const double payload = static_cast<double>(all_gather[1].traffic.contribution);
  EXPECT_EQ(all_gather[1].traffic.received,
            all_gather[0].traffic.contribution + all_gather[2].traffic.contribution);
  EXPECT_NEAR(received(ExchangeKind::kDense), 2.0 * 2 / 3 * 4 * kElements, 256);
  // The union is nearly three times as large as an update; entries of sums pack a little worse.
  const double partitioned = received(ExchangeKind::kOwnerPartitioned);
  EXPECT_GT(partitioned, 2.0 / 3 * payload * 3.2);
  EXPECT_LT(partitioned, 2.0 / 3 * payload * 4.5);
}

TEST(Traffic, OfOwnersIsBoundedWhereTrainersAgreeOnWhatTheySend) {
  // The same entries on all of 8 trainers.
  ExchangeCase what(std::vector<uint32_t>(8, 0), 50'000, SyntheticData::kExact, 0.05);
  for (ExchangeInput& input : what.inputs) input = what.inputs[0];
  const auto all_gather = RunExchange({.kind = ExchangeKind::kSparseAllGather}, what);
  const auto partitioned = RunExchange({.kind = ExchangeKind::kOwnerPartitioned}, what);
  EXPECT_LT(2 * partitioned[3].traffic.received, all_gather[3].traffic.received);
}

TEST(Traffic, OfASiteDoesNotGrowWithItsTrainersWhenMerged) {
  // Two sites of four. What leaders receive from outside is one sum.
  const ExchangeCase what({0, 0, 0, 0, 1, 1, 1, 1}, 50'000, SyntheticData::kExact, 0.02);
  const auto all_gather = RunExchange({.kind = ExchangeKind::kSparseAllGather}, what);
  const auto merged = RunExchange({.kind = ExchangeKind::kSiteMerged}, what);
  uint64_t over_link_of_site_0 = 0;  // all that its four receive, less what comes from inside
  for (int k = 0; k < 4; ++k) {
    for (int other = 4; other < 8; ++other) {
      over_link_of_site_0 += all_gather[static_cast<size_t>(other)].traffic.contribution;
    }
  }
  const uint64_t from_members = merged[1].traffic.contribution + merged[2].traffic.contribution +
                                merged[3].traffic.contribution;
  EXPECT_LT(3 * (merged[0].traffic.received - from_members), over_link_of_site_0);
}

// The tests above prove something only if other orders give other sums.
TEST(CancellingData, ShowsEveryOtherOrder) {
  ExchangeCase what({0, 0, 0, 0, 0}, 4001, SyntheticData::kCancelling, 0.8);
  const auto in_order = what.Fold();
  what.site_of = {0, 1, 0, 1, 2};
  EXPECT_GT(Differences(what.Fold(), in_order), 400u);
  what.site_of = {0, 0, 0, 0, 0};
  std::reverse(what.inputs.begin(), what.inputs.end());
  EXPECT_GT(Differences(what.Fold(), in_order), 400u);
}

TEST(GroupBySite, KeepsTrainersInOrder) {
  EXPECT_EQ(GroupBySite({}, 3), (Sites{{0, 1, 2}}));
  EXPECT_EQ(GroupBySite(std::vector<uint32_t>{1, 0, 1, 0}, 4), (Sites{{1, 3}, {0, 2}}));
}

// Rounds of one job: sparse first, denser later, one with a dropped trainer; all choose alike.
TEST(AdaptiveExchange, ChoosesAlikeOnAllRanksAndLearnsFromItsRounds) {
  constexpr size_t kTrainers = 8;
  const std::vector<double> shares = {0.01, 0.01, 0.9, 0.9, 0.2};
  std::vector<ExchangeCase> rounds;
  for (const double share : shares) {
    rounds.emplace_back(std::vector<uint32_t>(kTrainers, 0), 30'000, SyntheticData::kCancelling,
                        share);
  }
  rounds[1].contributes[2] = 0;
  auto group = *MakeInProcessGroup(kTrainers);
  std::vector<std::vector<Estimate>> estimates(kTrainers);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < kTrainers; ++k) {
    threads.emplace_back([&, k] {
      AdaptiveExchange exchange(*group[k], *kernels::ChooseKernels("auto"),
                                {.sites = rounds[0].sites(), .memory_bytes = 1 << 30});
      for (const ExchangeCase& what : rounds) {
        const Contribution mine = what.ContributionOf(k, true);
        // The status table.
        Bytes row;
        AppendLittle(exchange.ExpectedBytes(mine), row);
        std::vector<Bytes> rows;
        ASSERT_TRUE(group[k]->AllGather(row, rows, Deadline::Never()).ok());
        std::vector<uint64_t> payload_bytes;
        for (const Bytes& bytes : rows) payload_bytes.push_back(LoadLittle<uint64_t>(bytes.data()));
        const auto entries = what.Entries(true);
        std::vector<float> sum(what.elements);
        const Status status =
            exchange.Sum(mine, {what.contributes, entries}, payload_bytes, sum, Deadline::Never());
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(Differences(sum, what.Fold()), 0u);
        estimates[k].push_back(exchange.estimate());
        exchange.Learn(0.5);  // a slow network
      }
      EXPECT_LT(exchange.links().link_bytes_per_second, LinkModel().link_bytes_per_second);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 1; k < kTrainers; ++k) {
    for (size_t i = 0; i < rounds.size(); ++i) {
      EXPECT_EQ(estimates[k][i].kind, estimates[0][i].kind) << i;
      EXPECT_EQ(estimates[k][i].seconds, estimates[0][i].seconds) << i;
    }
  }
  EXPECT_EQ(estimates[0][0].kind, ExchangeKind::kSparseAllGather);
  // By then it knows that nearly all entries coincide.
  EXPECT_EQ(estimates[0][3].kind, ExchangeKind::kOwnerPartitioned);
}

}  // namespace
}  // namespace pulse::loco
