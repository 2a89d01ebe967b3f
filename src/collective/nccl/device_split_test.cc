// Sites whose ranks share a mocked NCCL, and a communicator on the host across: the conformance
// suite with messages in device memory, on the host, and some of both.
#include <map>
#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/in_process.h"
#include "collective/nccl/device_messages.h"
#include "collective/nccl/mocked_nccl.h"
#include "collective/nccl/nccl_communicator.h"
#include "collective/split.h"

namespace pulse {
namespace {

// What the ranks of one site share.
struct Site {
  std::shared_ptr<MockedFabric> fabric = std::make_shared<MockedFabric>();
  std::vector<int> members;
};

void RunRank(const Site& site, Communicator& across, const ConformanceLimits& limits,
             bool on_device, const std::function<void(Communicator&)>& body) {
  RealClock clock;
  MockedDevice device;
  MockedNccl nccl(site.fabric, device);
  const DeviceDriver driver = device.Table();
  const NcclTable table = nccl.Table();
  {
    NcclOptions options;
    options.chunk_bytes = std::min(limits.chunk_bytes, uint64_t{1} << 18);
    options.max_message_bytes = limits.max_message_bytes;
    for (const int member : site.members) {
      if (member == across.rank()) options.rank = static_cast<int>(options.hosts.size());
      options.hosts.push_back(across.HostOf(member));
    }
    auto inside =
        OpenNcclCommunicator(driver, table, clock, options, Deadline::After(clock, 30'000));
    ASSERT_TRUE(inside.ok()) << inside.status();
    const StagingOptions staging = {.slots = 2, .slot_bytes = 1 << 16};
    auto split = OpenDeviceSplit(
        *std::move(inside), across, DeviceWork::Open(driver, clock, staging).value(),
        {.members = site.members, .max_message_bytes = limits.max_message_bytes});
    ASSERT_TRUE(split.ok()) << split.status();
    DeviceWork work = DeviceWork::Open(driver, clock, staging).value();
    DeviceMessages messages(**split, work);
    body(on_device ? static_cast<Communicator&>(messages) : **split);
  }
  EXPECT_THAT(device.violations(), testing::IsEmpty());
  EXPECT_THAT(nccl.violations(), testing::IsEmpty());
  EXPECT_EQ(device.live(), 0u);
}

// site_of[r]: the site of rank r. on_host: every second rank has its messages there.
ConformanceBackend Sites(std::string name, std::vector<int> site_of, bool on_host) {
  return {std::move(name),
          [=](const ConformanceLimits& limits, const std::function<void(Communicator&)>& body) {
            auto across = MakeInProcessGroup(static_cast<int>(site_of.size())).value();
            std::map<int, Site> sites;
            for (size_t r = 0; r < site_of.size(); ++r) {
              sites[site_of[r]].members.push_back(static_cast<int>(r));
            }
            std::vector<std::thread> threads;
            for (size_t r = 0; r < site_of.size(); ++r) {
              threads.emplace_back([&, r] {
                RunRank(sites.at(site_of[r]), *across[r], limits, !on_host || r % 2 == 0, body);
              });
            }
            for (std::thread& thread : threads) thread.join();
          }};
}

INSTANTIATE_TEST_SUITE_P(DeviceSplit, CommunicatorConformance,
                         testing::Values(Sites("OneSite", {0, 0}, false),
                                         Sites("SitesOfOne", {0, 1}, false),
                                         Sites("TwoSites", {0, 0, 1, 1}, false),
                                         Sites("UnevenAndMixed", {0, 1, 0, 1, 0}, true)),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace pulse
