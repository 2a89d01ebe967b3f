#include "collective/mpi/mpi_communicator.h"

#include "collective/communicator_conformance.h"
#include "collective/mpi/mpi_test_main.h"

namespace pulse {
namespace {

StatusOr<std::unique_ptr<Communicator>> Open(const MpiOptions& options) {
  const RealClock clock;  // the deadline is used up in this call
  return OpenMpiCommunicator(MpiTestSession(), options, Deadline::After(clock, 30'000));
}

ConformanceBackend Processes() {
  return {"Processes",
          [](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            auto comm = Open({limits.chunk_bytes, limits.max_message_bytes});
            ASSERT_TRUE(comm.ok()) << comm.status();
            body(**comm);
          }};
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::Values(Processes()),
                         [](const auto& param) { return param.param.name; });

TEST(MpiSession, CannotBeStartedTwice) {
  RealClock clock;
  EXPECT_TRUE(absl::IsFailedPrecondition(MpiSession::Start(clock).status()));
}

TEST(MpiCommunicator, RefusesAChunkSizeThatMpiCannotCount) {
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.chunk_bytes = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open({.chunk_bytes = (uint64_t{1} << 30) + 1}).status()));
}

}  // namespace
}  // namespace pulse
