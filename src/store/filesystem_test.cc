// What filesystem.h promises, of the machine's own file system and of the one that forgets, so that
// what is tested on the double holds on the machine.
#include "store/filesystem.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

using Kind = DirectoryEntry::Kind;

enum class Base { kPosix, kPosixInMemory, kUnsynced, kDecorated };

class AnyFilesystem : public testing::TestWithParam<Base> {
 protected:
  void SetUp() override {
    const bool on_disk = GetParam() == Base::kPosix;
    folder_.emplace(on_disk ? TemporaryFolder::Where::kDisk : TemporaryFolder::Where::kMemory);
    if (GetParam() == Base::kUnsynced) {
      base_ = std::make_unique<UnsyncedFilesystem>(clock_);
      ASSERT_TRUE(base_->CreateDirectories(folder_->path()).ok());
    } else {
      base_ = MakePosixFilesystem();
    }
    if (GetParam() == Base::kDecorated) {
      decorated_ = MakeFaultInjectingFilesystem(*base_, injector_);
    }
  }

  Filesystem& fs() { return decorated_ == nullptr ? *base_ : *decorated_; }
  std::string Path(const std::string& name) const { return folder_->path() + "/" + name; }

  void Write(const std::string& name, std::string_view text) {
    const Status status = WriteFileAtomically(fs(), Path(name), AsBytes(text));
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string Read(const std::string& name) {
    const auto bytes = ReadFile(fs(), Path(name), 1 << 20);
    return bytes.ok() ? std::string(AsText(*bytes)) : bytes.status().ToString();
  }
  std::string Names(const std::string& name) {
    const auto entries = fs().List(Path(name));
    if (!entries.ok()) return entries.status().ToString();
    std::string names;
    for (const DirectoryEntry& entry : *entries) names += entry.name + ' ';
    return names;
  }

  RealClock clock_;
  std::optional<TemporaryFolder> folder_;
  FaultInjector injector_{clock_};
  std::unique_ptr<Filesystem> base_, decorated_;
};

TEST_P(AnyFilesystem, WritesAFileInPiecesAndReadsItAnywhere) {
  auto file = fs().Create(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  Bytes all(3 << 20);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i * 7 + (i >> 16));
  ASSERT_TRUE((*file)->Append(ByteView(all).first(5)).ok());
  ASSERT_TRUE((*file)->Append({}).ok());
  ASSERT_TRUE((*file)->Append(ByteView(all).subspan(5)).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());

  const auto open = fs().Open(Path("f"));
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ((*open)->size(), all.size());
  EXPECT_EQ((*open)->entry().bytes, all.size());
  EXPECT_EQ((*open)->entry().file_id, fs().Stat(Path("f"))->file_id);
  Bytes some(1000);
  ASSERT_TRUE((*open)->ReadAt(2'000'000, some).ok());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 2'000'000));
  EXPECT_TRUE((*open)->ReadAt(all.size(), {}).ok());
  EXPECT_TRUE(absl::IsDataLoss((*open)->ReadAt(all.size() - 999, some)));
  const auto mapped = (*open)->Map();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_TRUE(std::equal(mapped->begin(), mapped->end(), all.begin(), all.end()));
  EXPECT_EQ((*open)->Map()->data(), mapped->data()) << "mapped once";
}

TEST_P(AnyFilesystem, CreatesOnlyWhereNothingIs) {
  Write("taken", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(fs().Create(Path("taken")).status()));
  ASSERT_TRUE(fs().Symlink("nowhere", Path("dangling")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(fs().Create(Path("dangling")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().Create(Path("no/folder")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().Create(Path("taken/inside")).status()));
  EXPECT_EQ(Read("taken"), "x");
}

TEST_P(AnyFilesystem, NamesCallAndPathInItsErrors) {
  const Status status = fs().Open(Path("none")).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(ToStd(status.message()), "open " + Path("none") + ": No such file or directory");
}

TEST_P(AnyFilesystem, KeepsAnOpenFileThoughItsNameIsReplacedOrRemoved) {
  Write("f", "before");
  const auto open = fs().Open(Path("f"));
  ASSERT_TRUE(open.ok());
  const ByteView mapped = *(*open)->Map();
  Write("f", "after!");
  Bytes read(6);
  ASSERT_TRUE((*open)->ReadAt(0, read).ok());
  EXPECT_EQ(AsText(read), "before");
  EXPECT_NE((*open)->entry().file_id, fs().Stat(Path("f"))->file_id);
  ASSERT_TRUE(fs().Remove(Path("f")).ok());
  EXPECT_EQ(AsText(mapped), "before");
}

TEST_P(AnyFilesystem, MapsAnEmptyFileAsNothing) {
  Write("empty", "");
  EXPECT_TRUE((*fs().Open(Path("empty")))->Map()->empty());
}

TEST_P(AnyFilesystem, OpensOnlyFiles) {
  ASSERT_TRUE(fs().CreateDirectories(Path("d")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(fs().Open(Path("d")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().Open(Path("none")).status()));
}

TEST_P(AnyFilesystem, ListsInOrderOfNameWithKinds) {
  Write("b", "four");
  Write("a-", "");
  ASSERT_TRUE(fs().CreateDirectories(Path("a/deep")).ok());
  ASSERT_TRUE(fs().Symlink("b", Path("link")).ok());
  const auto entries = fs().List(folder_->path());
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(Names(""), "a a- b link ");
  EXPECT_EQ((*entries)[0].kind, Kind::kDirectory);
  EXPECT_EQ((*entries)[2].kind, Kind::kFile);
  EXPECT_EQ((*entries)[2].bytes, 4u);
  EXPECT_EQ((*entries)[2].file_id, fs().Stat(Path("b"))->file_id);
  EXPECT_GT((*entries)[2].modified_unix_ns, 0);
  EXPECT_EQ((*entries)[3].kind, Kind::kSymlink);
  EXPECT_TRUE(absl::IsNotFound(fs().List(Path("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().List(Path("b")).status()));
}

TEST_P(AnyFilesystem, MakesFoldersWithTheirParentsOnceAndAgain) {
  ASSERT_TRUE(fs().CreateDirectories(Path("x/y/z")).ok());
  ASSERT_TRUE(fs().CreateDirectories(Path("x/y/z")).ok());
  EXPECT_EQ(fs().Stat(Path("x/y/z"))->kind, Kind::kDirectory);
  EXPECT_TRUE(fs().SyncDirectory(Path("x/y")).ok());
  Write("f", "");
  EXPECT_TRUE(absl::IsAlreadyExists(fs().CreateDirectories(Path("f"))));
  EXPECT_TRUE(absl::IsAlreadyExists(fs().CreateDirectories(Path("f/g"))));
  EXPECT_TRUE(absl::IsAlreadyExists(fs().CreateDirectories(Path("f/g/h"))));
  EXPECT_TRUE(absl::IsNotFound(fs().SyncDirectory(Path("none"))));
}

TEST_P(AnyFilesystem, RenamesOverFilesAndEmptyFoldersOnly) {
  Write("a", "a");
  Write("b", "b");
  ASSERT_TRUE(fs().Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Read("b"), "a");
  EXPECT_TRUE(absl::IsNotFound(fs().Rename(Path("a"), Path("b"))));
  EXPECT_TRUE(absl::IsNotFound(fs().Rename(Path("b"), Path("no/b"))));
  ASSERT_TRUE(fs().CreateDirectories(Path("full/inner")).ok());
  ASSERT_TRUE(fs().CreateDirectories(Path("empty")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(fs().Rename(Path("b"), Path("empty"))));
  EXPECT_TRUE(absl::IsNotFound(fs().Rename(Path("empty"), Path("b"))));
  EXPECT_TRUE(absl::IsFailedPrecondition(fs().Rename(Path("empty"), Path("full"))));
  ASSERT_TRUE(fs().Rename(Path("full"), Path("empty")).ok());
  EXPECT_EQ(Names("empty"), "inner ");
  EXPECT_EQ(Names(""), "b empty ");
}

TEST_P(AnyFilesystem, LinksOnlyToFreeNames) {
  Write("a", "a");
  Write("b", "b");
  EXPECT_TRUE(absl::IsAlreadyExists(fs().Link(Path("a"), Path("b"))));
  EXPECT_TRUE(absl::IsNotFound(fs().Link(Path("none"), Path("c"))));
  ASSERT_TRUE(fs().Link(Path("a"), Path("c")).ok());
  EXPECT_EQ(fs().Stat(Path("a"))->file_id, fs().Stat(Path("c"))->file_id);
  EXPECT_NE(fs().Stat(Path("a"))->file_id, fs().Stat(Path("b"))->file_id);
  ASSERT_TRUE(fs().Remove(Path("a")).ok());
  EXPECT_EQ(Read("c"), "a");
}

TEST_P(AnyFilesystem, FollowsSymlinksAndReplacesThemByRenaming) {
  Write("one", "1");
  ASSERT_TRUE(fs().CreateDirectories(Path("d")).ok());
  Write("d/two", "2");
  ASSERT_TRUE(fs().Symlink("one", Path("current")).ok());
  EXPECT_EQ(Read("current"), "1");
  EXPECT_EQ(fs().Stat(Path("current"))->kind, Kind::kFile);
  EXPECT_EQ(*fs().ReadSymlink(Path("current")), "one");
  ASSERT_TRUE(fs().Symlink(Path("d/../d/two"), Path("next")).ok());
  ASSERT_TRUE(fs().Rename(Path("next"), Path("current")).ok());
  EXPECT_EQ(Read("current"), "2");
  EXPECT_EQ(Read("one"), "1");
  ASSERT_TRUE(fs().Symlink("d", Path("folder")).ok());
  EXPECT_EQ(Read("folder/two"), "2");
  EXPECT_EQ(Names("folder"), "two ");
  ASSERT_TRUE(fs().Remove(Path("current")).ok());
  EXPECT_EQ(Read("d/two"), "2") << "the symlink went, not what it names";

  EXPECT_TRUE(absl::IsInvalidArgument(fs().ReadSymlink(Path("one")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().ReadSymlink(Path("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs().ReadSymlink(Path("one/deeper")).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(fs().Symlink("x", Path("one"))));
  const std::string long_target(1000, 'x');
  ASSERT_TRUE(fs().Symlink(long_target, Path("long")).ok());
  EXPECT_EQ(*fs().ReadSymlink(Path("long")), long_target);
  ASSERT_TRUE(fs().Symlink("loop", Path("loop")).ok());
  EXPECT_FALSE(fs().Stat(Path("loop")).ok());
}

TEST_P(AnyFilesystem, RemovesFilesAndEmptyFolders) {
  ASSERT_TRUE(fs().CreateDirectories(Path("d")).ok());
  Write("d/f", "");
  EXPECT_TRUE(absl::IsFailedPrecondition(fs().Remove(Path("d"))));
  EXPECT_TRUE(fs().Remove(Path("d/f")).ok());
  EXPECT_TRUE(fs().Remove(Path("d")).ok());
  EXPECT_TRUE(absl::IsNotFound(fs().Remove(Path("d"))));
  EXPECT_TRUE(absl::IsNotFound(fs().Remove(Path("none/deeper"))));
}

TEST_P(AnyFilesystem, GivesEachSyncedFileATimeOfItsOwn) {
  std::set<int64_t> times;
  for (int i = 0; i < 50; ++i) {
    Write("f", std::to_string(i));
    times.insert(fs().Stat(Path("f"))->modified_unix_ns);
  }
  EXPECT_EQ(times.size(), 50u);
}

TEST_P(AnyFilesystem, LocksOutOthersUntilTheDeadline) {
  auto held = fs().Lock(Path("lock"), Deadline::Never());
  ASSERT_TRUE(held.ok()) << held.status();
  const auto refused = fs().Lock(Path("lock"), Deadline::After(clock_, 0));
  EXPECT_TRUE(absl::IsDeadlineExceeded(refused.status())) << refused.status();
  const auto other = fs().Lock(Path("other"), Deadline::After(clock_, 0));
  EXPECT_TRUE(other.ok()) << other.status();
  held->reset();
  EXPECT_TRUE(fs().Lock(Path("lock"), Deadline::After(clock_, 0)).ok());
  EXPECT_TRUE(absl::IsNotFound(fs().Lock(Path("no/lock"), Deadline::Never()).status()));
}

TEST_P(AnyFilesystem, LocksTheFileThatHasTheNameAndNotOneThatHadIt) {
  auto first = fs().Lock(Path("lock"), Deadline::Never());
  ASSERT_TRUE(fs().Remove(Path("lock")).ok());
  auto second = fs().Lock(Path("lock"), Deadline::After(clock_, 0));
  ASSERT_TRUE(second.ok()) << "the name is free again";
  first->reset();
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(fs().Lock(Path("lock"), Deadline::After(clock_, 0)).status()));
}

TEST_P(AnyFilesystem, ExcludesThreadsEvenWhenEachHolderRemovesTheLock) {
  constexpr int kThreads = 8, kRounds = 100;
  std::atomic<int> counter = 0;  // but read and written apart: the lock is all that joins them
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const auto lock = fs().Lock(Path("lock"), Deadline::Never());
        if (!lock.ok()) {
          ADD_FAILURE() << lock.status();
          return;
        }
        const int seen = counter;
        std::this_thread::yield();
        counter = seen + 1;
        if (t % 2 == 0) fs().Remove(Path("lock")).IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, kThreads * kRounds);
}

TEST_P(AnyFilesystem, ReadsAWholeFileUpToABound) {
  Write("f", "12345");
  EXPECT_TRUE(ReadFile(fs(), Path("f"), 5).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(ReadFile(fs(), Path("f"), 4).status()));
}

TEST_P(AnyFilesystem, WritesAtomicallyPastTemporariesThatAnotherLifeLeft) {
  // In a container every life has the same pid, and counts from zero.
  for (int i = 0; i < 2000; ++i) {
    auto file = fs().Create(fmt::format("{}.tmp-{}-{}", Path("f"), ::getpid(), i));
    ASSERT_TRUE(file.ok());
  }
  Write("f", "x");
  EXPECT_EQ(Read("f"), "x");
}

TEST_P(AnyFilesystem, LeavesTheOldFileAndNothingElseWhenAnAtomicWriteFails) {
  Write("f", "old");
  const auto write = [&](FaultInjector& injector) {
    const auto faulty = MakeFaultInjectingFilesystem(*base_, injector);
    const Status status = WriteFileAtomically(*faulty, Path("f"), AsBytes("new"));
    if (injector.Plan().empty()) return;
    EXPECT_FALSE(status.ok()) << injector.Log();
    // Only the closing sync of the folder comes after the new file took its place.
    const bool renamed = injector.operations() == 6 && injector.Plan() == "fail before 5";
    EXPECT_EQ(Read("f"), renamed ? "new" : "old") << injector.Plan() << '\n' << injector.Log();
    EXPECT_EQ(Names(""), "f ") << injector.Log();
    Write("f", "old");
  };
  FaultInjector none(clock_);
  write(none);
  Write("f", "old");
  EXPECT_EQ(none.operations(), 6u) << none.Log();
  for (uint64_t n = 0; n < none.operations(); ++n) {
    FaultInjector injector(clock_, {Fault::FailBefore(n)});
    write(injector);
  }
}

std::string NameOfBase(const testing::TestParamInfo<Base>& info) {
  switch (info.param) {
    case Base::kPosix:
      return "Posix";
    case Base::kPosixInMemory:
      return "PosixInMemory";
    case Base::kUnsynced:
      return "Unsynced";
    default:
      return "Decorated";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, AnyFilesystem,
                         testing::Values(Base::kPosix, Base::kPosixInMemory, Base::kUnsynced,
                                         Base::kDecorated),
                         NameOfBase);

}  // namespace
}  // namespace pulse
