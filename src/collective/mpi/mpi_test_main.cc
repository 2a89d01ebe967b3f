#include "collective/mpi/mpi_test_main.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

namespace pulse {
namespace {

std::unique_ptr<MpiSession> session;

// For all ranks but the first, whose report is enough: says only what failed, and where.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d: %s\n", session->rank(), test_.c_str(),
                 result.file_name() ? result.file_name() : "", result.line_number(),
                 result.message());
  }

  std::string test_;  // gtest holds a lock while it reports, so it cannot be asked then
};

}  // namespace

MpiSession& MpiTestSession() {
  return *session;
}

}  // namespace pulse

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pulse::RealClock clock;
  auto started = pulse::MpiSession::Start(clock);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    return 1;
  }
  pulse::session = *std::move(started);
  if (pulse::session->rank() != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new pulse::FailurePrinter);  // the listeners own it
  }
  const int failed = RUN_ALL_TESTS();
  if (failed) pulse::session->Abort(1);
  pulse::session.reset();
  return 0;
}
