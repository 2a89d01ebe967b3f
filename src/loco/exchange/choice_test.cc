#include "loco/exchange/choice.h"

#include <gtest/gtest.h>

namespace pulse::loco {
namespace {

constexpr uint64_t kElements = 100'000'000;

// K trainers of n entries and p bytes each.
struct Round {
  Round(uint32_t trainers, uint64_t of_entries, uint64_t of_bytes, double union_share = 1)
      : entries(trainers, of_entries), bytes(trainers, of_bytes), share(union_share) {}
  ChoiceFacts facts() const { return {kElements, entries, bytes, share}; }
  std::vector<uint64_t> entries, bytes;
  double share;
};

Sites OneSite(uint32_t trainers) {
  return GroupBySite({}, trainers);
}

Sites EvenSites(uint32_t trainers, uint32_t sites) {
  std::vector<uint32_t> site_of(trainers);
  for (uint32_t k = 0; k < trainers; ++k) site_of[k] = k * sites / trainers;
  return GroupBySite(site_of, trainers);
}

// Neither steps nor processors cost anything: what is left are the formulas in bytes.
constexpr LinkModel kBytesAlone = {.step_seconds = 0, .entry_seconds = 0};

TEST(EstimateExchange, IsTheFormulaOfEachAlgorithmWithOneSite) {
  // n b = 15 MB; the union of 4 trainers is 70 % of all entries: 14 M elements of 3 bytes.
  const Round round(4, 5'000'000, 15'000'000, 0.7);
  const auto bytes = [&](ExchangeKind kind) {
    const Estimate estimate = EstimateExchange(kind, round.facts(), OneSite(4), kBytesAlone);
    EXPECT_EQ(estimate.kind, kind);
    EXPECT_DOUBLE_EQ(estimate.link_bytes, estimate.rank_bytes);
    EXPECT_DOUBLE_EQ(estimate.seconds, estimate.link_bytes / 125e6);
    return estimate.link_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kSparseAllGather), 3 * 15e6);
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kOwnerPartitioned), 0.75 * (15e6 + 42e6));
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kDense), 2 * 0.75 * 400e6);
}

TEST(EstimateExchange, CountsWhatASharedLinkOfASiteCarries) {
  const Round round(8, 1'000'000, 3'000'000);
  const Sites sites = EvenSites(8, 2);
  const auto bytes = [&](ExchangeKind kind) {
    return EstimateExchange(kind, round.facts(), sites, kBytesAlone).link_bytes;
  };
  // Each of four trainers fetches the other four's updates; a leader fetches their sum once.
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kSparseAllGather), 4 * 4 * 3e6);
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kSiteMerged), 4 * 3e6);
  // Half of the four updates; and four trainers fetch four eighths of the sum each.
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kOwnerPartitioned), 4 * 3e6 / 2 + 4 * 24e6 / 2);
  EXPECT_DOUBLE_EQ(bytes(ExchangeKind::kDense), 2 * 4 * 4 * 4e8 / 8);
}

TEST(ChooseExchange, CrossesFromAllGatherToOwnersToDenseAsTrainersAndEntriesGrow) {
  const auto chosen = [](uint32_t trainers, double density, double share) {
    const auto n = static_cast<uint64_t>(density * kElements);
    return ChooseExchange(Round(trainers, n, 3 * n, share).facts(), OneSite(trainers), kBytesAlone)
        .kind;
  };
  EXPECT_EQ(chosen(2, 0.05, 1), ExchangeKind::kSparseAllGather);
  EXPECT_EQ(chosen(4, 0.05, 1), ExchangeKind::kSparseAllGather);
  // Nothing in common: the sum is all updates, and the all-gather moves it once.
  EXPECT_EQ(chosen(8, 0.001, 1), ExchangeKind::kSparseAllGather);
  // Everything in common: the sum is one update, whatever the number of trainers.
  EXPECT_EQ(chosen(8, 0.001, 1.0 / 8), ExchangeKind::kOwnerPartitioned);
  // The sum fills up: 256 * 5 % of N is more than N, and it goes dense.
  EXPECT_EQ(chosen(256, 0.05, 0.08), ExchangeKind::kOwnerPartitioned);
  // Updates that are nearly dense, in three bytes or more: nothing to gain.
  EXPECT_EQ(chosen(8, 1.0, 1.0 / 8), ExchangeKind::kOwnerPartitioned);
  const Round all(8, kElements, 5 * kElements, 1.0 / 8);
  EXPECT_EQ(ChooseExchange(all.facts(), OneSite(8), kBytesAlone).kind, ExchangeKind::kDense);
}

TEST(ChooseExchange, MergesInsideSitesBeforeASlowLink) {
  const Round round(8, 1'000'000, 3'000'000);
  EXPECT_EQ(ChooseExchange(round.facts(), EvenSites(8, 2), {}).kind, ExchangeKind::kSiteMerged);
  // Where every site has one trainer, and where there is one site, there is nothing to merge.
  EXPECT_EQ(ChooseExchange(round.facts(), EvenSites(8, 8), {}).kind,
            ExchangeKind::kSparseAllGather);
  EXPECT_NE(ChooseExchange(round.facts(), OneSite(8), {}).kind, ExchangeKind::kSiteMerged);
}

TEST(ChooseExchange, PrefersFewStepsWhereLatencyIsAll) {
  const Round round(16, 100, 400, 1.0 / 16);
  EXPECT_EQ(ChooseExchange(round.facts(), OneSite(16), {}).kind, ExchangeKind::kSparseAllGather);
  EXPECT_EQ(ChooseExchange(round.facts(), OneSite(16), kBytesAlone).kind,
            ExchangeKind::kOwnerPartitioned);
}

TEST(ChooseExchange, PrefersDenseWhereProcessorsAreSlowerThanTheNetwork) {
  const Round round(8, 10'000'000, 30'000'000);
  EXPECT_EQ(ChooseExchange(round.facts(), OneSite(8), {.link_bytes_per_second = 1e8}).kind,
            ExchangeKind::kSparseAllGather);
  EXPECT_EQ(ChooseExchange(round.facts(), OneSite(8), {.link_bytes_per_second = 1e11}).kind,
            ExchangeKind::kDense);
}

TEST(ChooseExchange, BearsRoundsWithoutEntriesOrElements) {
  EXPECT_EQ(ChooseExchange(Round(3, 0, 0).facts(), OneSite(3), {}).kind,
            ExchangeKind::kSparseAllGather);
  const std::vector<uint64_t> nothing = {0};
  const Estimate estimate = ChooseExchange({0, nothing, nothing, 1}, OneSite(1), {});
  EXPECT_EQ(estimate.link_bytes, 0);
  EXPECT_LT(estimate.seconds, 1);
}

TEST(Learn, FindsTheRateThatExplainsWhatWasMeasured) {
  const Round round(4, 5'000'000, 15'000'000);
  LinkModel links = kBytesAlone;
  for (int i = 0; i < 20; ++i) {  // 45 MB in 1.8 s
    links = Learn(links, ChooseExchange(round.facts(), OneSite(4), links), 1.8);
  }
  EXPECT_NEAR(links.link_bytes_per_second, 25e6, 1e3);
}

TEST(Learn, IgnoresWhatTellsNothingAboutTheLink) {
  const Round round(4, 5'000'000, 15'000'000);
  const LinkModel links;
  const Estimate estimate = ChooseExchange(round.facts(), OneSite(4), links);
  for (const double seconds : {0.0, 0.001, 0.1 * estimate.seconds}) {
    EXPECT_EQ(Learn(links, estimate, seconds).link_bytes_per_second, links.link_bytes_per_second);
  }
  const Estimate alone = ChooseExchange(Round(1, 10, 40).facts(), OneSite(1), links);
  EXPECT_EQ(Learn(links, alone, 5).link_bytes_per_second, links.link_bytes_per_second);
}

TEST(ExchangeKind, HasNamesThatAreReadBack) {
  for (const ExchangeKind kind :
       {ExchangeKind::kAuto, ExchangeKind::kSparseAllGather, ExchangeKind::kOwnerPartitioned,
        ExchangeKind::kSiteMerged, ExchangeKind::kDense}) {
    EXPECT_EQ(*ExchangeKindFromName(NameOf(kind)), kind);
  }
  EXPECT_EQ(ExchangeKindFromName("ring").status(),
            InvalidArgument("exchange is \"ring\"; expected auto, sparse-all-gather, "
                            "owner-partitioned, site-merged, dense"));
}

}  // namespace
}  // namespace pulse::loco
