#include "sync/version.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace pulse {
namespace {

const std::string kNonce(32, 'a');

TEST(Version, FolderNamesReadBackAndNothingElseDoes) {
  const VersionId id{3, 17, kNonce};
  EXPECT_EQ(id.Folder(), "3.17." + kNonce);
  EXPECT_EQ(VersionId::FromFolder(id.Folder()), id);
  for (const std::string& bad : std::vector<std::string>{
           "", ".", "..", "3.17", "3.17.", "03.17." + kNonce, "3.017." + kNonce, "0.17." + kNonce,
           "3.0." + kNonce, "+3.17." + kNonce, "3.17." + kNonce + "a",
           "3.17." + std::string(32, 'A'), "3.17.." + kNonce, "3.17.1." + kNonce, "-3.17." + kNonce,
           " 3.17." + kNonce, "9007199254740992.1." + kNonce, "99999999999999999999.1." + kNonce}) {
    EXPECT_FALSE(VersionId::FromFolder(bad).has_value()) << bad;
  }
}

TEST(Version, RunNamesAreCheckedBeforeTheyBecomeKeys) {
  for (const std::string& good :
       std::vector<std::string>{"main", "a", "7b-v1.2_x", std::string(64, 'x')}) {
    EXPECT_TRUE(CheckRunName(good).ok()) << good;
  }
  for (const std::string& bad : std::vector<std::string>{
           "", ".", "..", ".hidden", "a/b", "a b", "ä", std::string(65, 'x'), "a\n", "a%2f"}) {
    EXPECT_EQ(CheckRunName(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Version, SystemNoncesAreWellFormedAndDiffer) {
  SystemNonces nonces;
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(nonces.Next());
  EXPECT_EQ(seen.size(), 1000u);
  for (const std::string& nonce : seen) EXPECT_TRUE(IsNonce(nonce)) << nonce;
}

}  // namespace
}  // namespace pulse
