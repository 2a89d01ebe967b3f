#include "store/unsynced_filesystem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace pulse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UnsyncedFilesystemTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(fs_.CreateDirectories("/d").ok()); }

  // A new file with contents, of which `synced` are synced; its name is not.
  std::unique_ptr<WritableFile> Make(const std::string& path, std::string_view text,
                                     size_t synced) {
    auto file = fs_.Create(path);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Append(AsBytes(text.substr(0, synced))).ok());
    EXPECT_TRUE(synced == 0 || (*file)->Sync().ok());
    EXPECT_TRUE((*file)->Append(AsBytes(text.substr(synced))).ok());
    return *std::move(file);
  }
  std::string Read(const std::string& path) {
    const auto bytes = ReadFile(fs_, path, 1000);
    return bytes.ok() ? std::string(AsText(*bytes))
                      : std::string(absl::StatusCodeToString(bytes.status().code()));
  }

  VirtualClock clock_;
  UnsyncedFilesystem fs_{clock_};
};

TEST_F(UnsyncedFilesystemTest, ForgetsANameWhoseFolderWasNotSynced) {
  Make("/d/f", "x", 1);
  EXPECT_EQ(Read("/d/f"), "x");
  fs_.Crash();
  EXPECT_EQ(Read("/d/f"), "NOT_FOUND");
}

TEST_F(UnsyncedFilesystemTest, ForgetsContentsThatWereNotSynced) {
  Make("/d/none", "abc", 0);
  Make("/d/some", "abc", 2);
  ASSERT_TRUE(fs_.SyncDirectory("/d").ok());
  fs_.Crash();
  EXPECT_EQ(Read("/d/none"), "");
  EXPECT_EQ(Read("/d/some"), "ab");
}

TEST_F(UnsyncedFilesystemTest, TakesBackRenamesLinksAndRemovals) {
  Make("/d/a", "a", 1);
  Make("/d/b", "b", 1);
  ASSERT_TRUE(fs_.SyncDirectory("/d").ok());
  ASSERT_TRUE(fs_.Rename("/d/a", "/d/b").ok());
  ASSERT_TRUE(fs_.Link("/d/b", "/d/c").ok());
  ASSERT_TRUE(fs_.Remove("/d/b").ok());
  ASSERT_TRUE(fs_.Symlink("c", "/d/s").ok());
  EXPECT_THAT(fs_.Unsynced(), ElementsAre("/d/a was removed", "/d/b was removed", "/d/c was made",
                                          "/d/s was made"));
  fs_.Crash();
  EXPECT_EQ(Read("/d/a"), "a");
  EXPECT_EQ(Read("/d/b"), "b");
  EXPECT_EQ(Read("/d/c"), "NOT_FOUND");
  EXPECT_EQ(Read("/d/s"), "NOT_FOUND");
  EXPECT_THAT(fs_.Unsynced(), IsEmpty());
}

TEST_F(UnsyncedFilesystemTest, KeepsWhatWasSynced) {
  Make("/d/a", "a", 1);
  ASSERT_TRUE(fs_.Link("/d/a", "/d/b").ok());
  ASSERT_TRUE(fs_.Symlink("b", "/d/s").ok());
  ASSERT_TRUE(fs_.SyncDirectory("/d").ok());
  ASSERT_TRUE(fs_.Remove("/d/a").ok());
  ASSERT_TRUE(fs_.SyncDirectory("/d").ok());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    seed % 2 == 0 ? fs_.Crash() : fs_.CrashKeepingSome(seed);
    EXPECT_EQ(Read("/d/a"), "NOT_FOUND");
    EXPECT_EQ(Read("/d/b"), "a");
    EXPECT_EQ(Read("/d/s"), "a");
  }
}

TEST_F(UnsyncedFilesystemTest, LosesAFileInAFolderThatCannotBeReached) {
  ASSERT_TRUE(fs_.CreateDirectories("/d/sub").ok());
  ASSERT_TRUE(fs_.Rename("/d/sub", "/d/moved").ok());
  Make("/d/moved/f", "x", 1);
  ASSERT_TRUE(fs_.SyncDirectory("/d/moved").ok());
  fs_.Crash();
  EXPECT_EQ(Read("/d/moved/f"), "NOT_FOUND");
  EXPECT_EQ(Read("/d/sub/f"), "x") << "the old name of the folder came back";
}

TEST_F(UnsyncedFilesystemTest, LeavesOpenAndMappedFilesReadableAfterACrash) {
  Make("/d/f", "abc", 1);
  const auto open = fs_.Open("/d/f");
  const ByteView mapped = *(*open)->Map();
  fs_.Crash();
  EXPECT_EQ(AsText(mapped), "abc");
  Bytes read(3);
  EXPECT_TRUE((*open)->ReadAt(0, read).ok());
}

TEST_F(UnsyncedFilesystemTest, GivesAMappingThatLaterAppendsDoNotMove) {
  const auto file = Make("/d/f", "abc", 1);
  const auto open = fs_.Open("/d/f");
  const ByteView mapped = *(*open)->Map();
  ASSERT_TRUE(file->Append(Bytes(10'000)).ok());
  EXPECT_EQ(AsText(mapped), "abc");
  EXPECT_EQ((*fs_.Open("/d/f"))->size(), 10'003u);
}

TEST_F(UnsyncedFilesystemTest, RefusesToWriteOnAfterACrash) {
  const auto file = Make("/d/f", "abc", 1);
  fs_.Crash();
  EXPECT_TRUE(absl::IsUnavailable(file->Append(AsBytes("d"))));
  EXPECT_TRUE(absl::IsUnavailable(file->Sync()));
  EXPECT_TRUE(absl::IsUnavailable(file->Close()));
}

TEST_F(UnsyncedFilesystemTest, DropsLocksInACrash) {
  const auto before = fs_.Lock("/d/lock", Deadline::Never());
  fs_.Crash();
  auto after = fs_.Lock("/d/lock", Deadline::After(clock_, 0));
  EXPECT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(fs_.Lock("/d/lock", Deadline::After(clock_, 0)).status()));
}

TEST_F(UnsyncedFilesystemTest, KeepsAnySubsetOfTheUnsyncedAsTheSeedSays) {
  std::set<std::string> contents, names;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto outcome = [&] {
      UnsyncedFilesystem fs(clock_);
      EXPECT_TRUE(fs.CreateDirectories("/d").ok());
      for (const std::string path : {"/d/a", "/d/b", "/d/f"}) {
        auto file = fs.Create(path);
        EXPECT_TRUE((*file)->Append(AsBytes("1")).ok() && (*file)->Sync().ok());
        if (path != "/d/f") continue;
        EXPECT_TRUE(fs.SyncDirectory("/d").ok());
        EXPECT_TRUE((*file)->Append(AsBytes("23")).ok());
      }
      EXPECT_TRUE(fs.Rename("/d/a", "/d/c").ok());
      EXPECT_TRUE(fs.Remove("/d/b").ok());
      fs.CrashKeepingSome(seed);
      std::string text(AsText(*ReadFile(fs, "/d/f", 10)));
      for (char& c : text) c = c == '\0' ? '0' : c;
      std::string list;
      const auto entries = fs.List("/d");
      for (const DirectoryEntry& entry : *entries) list += entry.name;
      return std::pair(text, list);
    };
    const auto first = outcome();
    EXPECT_EQ(first, outcome()) << "seed " << seed;
    contents.insert(first.first);
    names.insert(first.second);
  }
  // Never less than was synced, and a rename never by half ("acf", "bf" would be half of one).
  EXPECT_THAT(contents, ElementsAre("1", "100", "12", "120", "123"));
  EXPECT_THAT(names, ElementsAre("abf", "af", "bcf", "cf"));
}

}  // namespace
}  // namespace pulse
