#include "sync/byte_sources.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/sha256.h"

namespace pulse {
namespace {

TEST(Spool, StaysInMemoryUpToItsBoundThenMovesToAFileThatGoesWithIt) {
  std::string name = "/tmp/pulse_spool_XXXXXX";
  const std::string folder = ::mkdtemp(name.data());
  const auto fs = MakePosixFilesystem();
  const std::string path = folder + "/spool";
  {
    Spool spool(fs.get(), path, 10);
    ASSERT_TRUE(spool.Append(AsBytes("0123456789")).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(spool.Append(AsBytes("abc")).ok());
    ASSERT_TRUE(spool.Append(AsBytes("def")).ok());
    ASSERT_TRUE(spool.Finish().ok());
    EXPECT_TRUE(std::filesystem::exists(path));
    Bytes all(16);
    ASSERT_TRUE(spool.Read(0, all).ok());
    EXPECT_EQ(AsText(all), "0123456789abcdef");
    EXPECT_EQ(*Sha256Of(spool), Sha256Hex(AsBytes("0123456789abcdef")));
    EXPECT_FALSE(spool.Read(1, all).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST(Spool, WithoutAFolderSaysSoAtItsBound) {
  Spool spool(nullptr, "", 10);
  ASSERT_TRUE(spool.Append(Bytes(10)).ok());
  EXPECT_EQ(spool.Append(Bytes(1)).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace pulse
