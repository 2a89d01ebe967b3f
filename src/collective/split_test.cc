// A communicator over two: sites of several shapes, in one process.
#include "collective/split.h"

#include <thread>

#include "collective/communicator_conformance.h"
#include "collective/in_process.h"

namespace pulse {
namespace {

// site_of[r]: the site of rank r.
ConformanceBackend Sites(std::string name, std::vector<int> site_of) {
  return {std::move(name), [site_of](const ConformanceLimits& limits,
                                     const std::function<void(Communicator&)>& body) {
            const size_t ranks = site_of.size();
            auto across = MakeInProcessGroup(static_cast<int>(ranks)).value();
            std::vector<std::unique_ptr<Communicator>> inside(ranks);
            std::vector<std::vector<int>> members(ranks);
            for (size_t first = 0; first < ranks; ++first) {
              if (inside[first]) continue;
              std::vector<int> site;
              for (size_t r = first; r < ranks; ++r) {
                if (site_of[r] == site_of[first]) site.push_back(static_cast<int>(r));
              }
              auto group = MakeInProcessGroup(static_cast<int>(site.size())).value();
              for (size_t i = 0; i < site.size(); ++i) {
                const auto r = static_cast<size_t>(site[i]);
                inside[r] = std::move(group[i]);
                members[r] = site;
              }
            }
            // They live until all ranks are through: leaving early is another error than being
            // late.
            std::vector<StatusOr<std::unique_ptr<Communicator>>> splits(ranks);
            std::vector<std::thread> threads;
            for (size_t r = 0; r < ranks; ++r) {
              threads.emplace_back([&, r] {
                splits[r] = OpenSplitCommunicator(
                    std::move(inside[r]), *across[r],
                    {.members = members[r], .max_message_bytes = limits.max_message_bytes});
                ASSERT_TRUE(splits[r].ok()) << splits[r].status();
                body(**splits[r]);
              });
            }
            for (std::thread& thread : threads) thread.join();
          }};
}

INSTANTIATE_TEST_SUITE_P(Split, CommunicatorConformance,
                         testing::Values(Sites("OneRank", {0}), Sites("OneSite", {0, 0, 0}),
                                         Sites("SitesOfOne", {0, 1}),
                                         Sites("UnevenAndMixed", {0, 1, 0, 1, 0})),
                         [](const auto& param) { return param.param.name; });

TEST(SplitCommunicator, RefusesMembersThatAreNotItsOwn) {
  for (const std::vector<int>& members : {std::vector<int>{}, {1}, {0, 1}, {2}, {-1}}) {
    auto across = MakeInProcessGroup(2).value();
    auto inside = MakeInProcessGroup(1).value();
    EXPECT_TRUE(absl::IsInvalidArgument(
        OpenSplitCommunicator(std::move(inside[0]), *across[0], {.members = members}).status()));
  }
}

}  // namespace
}  // namespace pulse
