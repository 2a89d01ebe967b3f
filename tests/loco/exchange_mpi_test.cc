// Every exchange over MPI, in chunks of a few bytes: the canonical sum.
#include <gtest/gtest.h>

#include "collective/checked.h"
#include "collective/mpi/mpi_communicator.h"
#include "collective/mpi/mpi_test_main.h"
#include "loco/exchange/adaptive.h"
#include "loco/exchange/exchange_conformance.h"

namespace pulse::loco {
namespace {

class EveryExchangeOverMpi : public testing::TestWithParam<ExchangeKind> {};

TEST_P(EveryExchangeOverMpi, ComputesTheCanonicalSumInChunksOfAFewBytes) {
  const auto ranks = static_cast<size_t>(MpiTestSession().size());
  const auto me = static_cast<size_t>(MpiTestSession().rank());
  const RealClock clock;
  auto communicator =
      OpenMpiCommunicator(MpiTestSession(), {.chunk_bytes = 7}, Deadline::After(clock, 50'000));
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  CheckedCommunicator checked(**communicator);
  for (const std::vector<uint32_t>& sites : SiteMaps()) {
    if (sites.size() != ranks) continue;
    for (const uint64_t memory_bytes : {uint64_t{1} << 30, uint64_t{20'000}}) {
      ExchangeCase what(sites, 501, SyntheticData::kCancelling, 0.6);
      if (ranks > 2) what.contributes[1] = 0;
      const auto exchange = MakeExchange(GetParam(), checked, *kernels::ChooseKernels("auto"),
                                         what.sites(), memory_bytes);
      std::vector<float> sum;
      const Status status = what.Sum(*exchange, me, true, sum);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(Differences(sum, what.Fold()), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryExchangeOverMpi, testing::ValuesIn(kExchangeKinds),
                         [](const auto& at) {
                           std::string name(NameOf(at.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace pulse::loco
