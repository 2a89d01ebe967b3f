// The communicator over NCCL itself: the conformance suite on as many ranks as there are GPUs, one
// thread each.
#include <cstdlib>
#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/nccl/device_messages.h"
#include "collective/nccl/nccl_communicator.h"
#include "collective/nccl/nccl_driver.h"
#include "device/cuda_driver.h"

namespace pulse {
namespace {

// on_device: messages lie in device memory.
ConformanceBackend RanksOnGpus(bool on_device) {
  return {
      on_device ? "DeviceMemory" : "HostMemory",
      [on_device](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
        const CudaFacts facts = ProbeCuda();
        if (facts.devices == 0) {
          if (std::getenv("PULSE_GPU_REQUIRED")) FAIL() << facts.words;
          GTEST_SKIP() << facts.words;
        }
        const NcclTable nccl = NcclDriver();
        NcclOptions options;
        ASSERT_EQ(nccl.make_id(&options.id), 0);
        for (int r = 0; r < facts.devices; ++r) {
          options.hosts.push_back("gpu" + std::to_string(r));
        }
        options.chunk_bytes = std::min(limits.chunk_bytes, options.chunk_bytes);
        options.max_message_bytes = limits.max_message_bytes;
        std::vector<std::thread> threads;
        for (int rank = 0; rank < facts.devices; ++rank) {
          threads.emplace_back([&, rank, mine = options]() mutable {
            RealClock clock;
            const DeviceDriver driver = CudaDriver();
            ASSERT_TRUE(SelectCudaDevice(driver, rank).ok());
            mine.rank = rank;
            auto comm =
                OpenNcclCommunicator(driver, nccl, clock, mine, Deadline::After(clock, 60'000));
            ASSERT_TRUE(comm.ok()) << comm.status();
            if (!on_device) return body(**comm);
            auto work = DeviceWork::Open(driver, clock);
            ASSERT_TRUE(work.ok()) << work.status();
            DeviceMessages messages(**comm, *work);
            body(messages);
          });
        }
        for (std::thread& thread : threads) thread.join();
      }};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance,
                         testing::Values(RanksOnGpus(false), RanksOnGpus(true)),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace pulse
