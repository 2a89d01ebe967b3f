#include "app/site_map.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(SitesOf, NumbersNamesInOrderOfFirstAppearance) {
  const std::vector<std::string> names = {"paris", "oslo", "paris", "rome", "oslo"};
  EXPECT_EQ(*SitesOf(names, 1), (std::vector<uint32_t>{0, 1, 0, 2, 1}));
}

TEST(SitesOf, AsksTheRanksOfATrainerForOneSite) {
  const std::vector<std::string> names = {"oslo", "oslo", "rome", "rome"};
  EXPECT_EQ(*SitesOf(names, 2), (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(absl::IsInvalidArgument(SitesOf(names, 4).status()));
}

TEST(SitesOf, RefusesARankWithoutAName) {
  const std::vector<std::string> names = {"oslo", ""};
  EXPECT_TRUE(absl::IsInvalidArgument(SitesOf(names, 1).status()));
}

}  // namespace
}  // namespace pulse
