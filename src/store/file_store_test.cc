// What is particular to the store of files. What all stores do is in store_conformance.cc, and what
// happens when the power fails in file_store_crash_test.cc.
#include "store/file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "store/fault_injecting_filesystem.h"
#include "store/file_object.h"
#include "store/temporary_folder.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecondNs = 1'000'000'000;

// Runs `body` in a process of its own; its result is the exit code.
pid_t StartProcess(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int WaitStatus(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

std::string Message(const Status& status) {
  return std::string(ToStd(status.message()));
}

class FileStoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> Open(Filesystem& fs, FileStoreOptions options = {}) {
    if (options.root.empty()) options.root = root_;
    options.create = true;
    auto store = OpenFileStore(options, fs, clock_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  static StatusOr<ObjectInfo> Put(Store& store, std::string_view key, std::string_view text,
                                  const PutCondition& condition = PutCondition::None()) {
    return store.Put(key, MemorySource(AsBytes(text)), condition);
  }
  static std::string TextOf(Store& store, std::string_view key) {
    const auto object = store.Get(key, 1 << 24);
    return object.ok() ? std::string(AsText(object->bytes)) : object.status().ToString();
  }
  // Every file and folder below the root.
  std::vector<std::string> Tree() { return TreeOf(*posix_, root_); }
  static std::vector<std::string> TreeOf(Filesystem& fs, const std::string& root,
                                         const std::string& below = "") {
    std::vector<std::string> names;
    const auto entries = fs.List(root + "/" + below);
    if (!entries.ok()) return {entries.status().ToString()};
    for (const DirectoryEntry& entry : *entries) {
      names.push_back(below + entry.name);
      if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
      for (std::string& name : TreeOf(fs, root, names.back() + "/"))
        names.push_back(std::move(name));
    }
    return names;
  }

  TemporaryFolder folder_{TemporaryFolder::Where::kMemory};
  const std::string root_ = folder_.path() + "/bucket";
  RealClock clock_;
  std::unique_ptr<Filesystem> posix_ = MakePosixFilesystem();
};

TEST_F(FileStoreTest, SaysInOneLineWhatIsWrongWithItsRoot) {
  const auto missing = OpenFileStore({.root = root_}, *posix_, clock_).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(Message(missing),
            "file://" + root_ + ": there is no such folder: create it, or ask for its creation");
  for (const std::string root : {"relative/path", "", "/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenFileStore({.root = root}, *posix_, clock_).status()))
        << root;
  }
  const std::string file = folder_.path() + "/file";
  ASSERT_TRUE(WriteFileAtomically(*posix_, file, {}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(OpenFileStore({.root = file}, *posix_, clock_).status()));
  EXPECT_FALSE(OpenFileStore({.root = file, .create = true}, *posix_, clock_).ok());

  const auto made = OpenFileStore({.root = root_ + "/deep//", .create = true}, *posix_, clock_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->uri(), "file://" + root_ + "/deep");
  EXPECT_TRUE(OpenFileStore({.root = root_ + "/deep"}, *posix_, clock_).ok());
}

TEST_F(FileStoreTest, SaysThatItMayNotWrite) {
  ASSERT_TRUE(Put(*Open(*posix_), "o", "old").ok());
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0555), 0);
  const int status = WaitStatus(StartProcess([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return 2;  // root may write everywhere
    auto store = OpenFileStore({.root = root_}, *posix_, clock_);
    if (!store.ok()) return 3;
    if (TextOf(**store, "o") != "old") return 4;
    const Status put = Put(**store, "o", "new").status();
    if (!absl::IsPermissionDenied(put) || Message(put).find(root_) == std::string::npos) return 5;
    return absl::IsPermissionDenied((*store)->Delete("o")) ? 0 : 6;
  }));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FileStoreTest, LeavesNothingHalfWrittenWhenTheDiskIsFull) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "o", "old").ok());
  const int status = WaitStatus(StartProcess([&] {
    // A limit in the middle of a piece: the first write is short, the next one fails.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1'500'000, 1'500'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Status put = Put(*store, "o", std::string(3'000'000, 'x')).status();
    return absl::IsResourceExhausted(put) ? 0 : 3;
  }));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(TextOf(*store, "o"), "old");
  EXPECT_THAT(Tree(), ElementsAre(".tmp.lock", "o"));
}

TEST_F(FileStoreTest, WritesInPiecesOfBoundedSizeInOrder) {
  class Recording final : public ByteSource {
   public:
    uint64_t size() const override { return (5 << 20) + 3; }
    Status Read(uint64_t offset, ByteSpan out) const override {
      EXPECT_EQ(offset, next_);
      EXPECT_LE(out.size(), 1u << 20);
      next_ = offset + out.size();
      return OkStatus();
    }
    mutable uint64_t next_ = 0;
  } source;
  ASSERT_TRUE(Open(*posix_)->Put("o", source, PutCondition::None()).ok());
  EXPECT_EQ(source.next_, source.size());
}

TEST_F(FileStoreTest, RefusesSymlinksThatLieBelowItsRoot) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(posix_->CreateDirectories(folder_.path() + "/outside").ok());
  ASSERT_TRUE(WriteFileAtomically(*posix_, folder_.path() + "/outside/secret", AsBytes("s")).ok());
  ASSERT_TRUE(posix_->Symlink("../outside", root_ + "/link").ok());
  ASSERT_TRUE(posix_->Symlink("../outside/secret", root_ + "/object").ok());
  uint8_t byte = 0;
  for (const std::string key : {"link/secret", "object"}) {
    const Status got = store->Get(key, 10).status();
    EXPECT_TRUE(absl::IsPermissionDenied(got)) << got;
    EXPECT_THAT(Message(got), HasSubstr("is a symlink"));
    EXPECT_TRUE(absl::IsPermissionDenied(store->Stat(key).status()));
    EXPECT_TRUE(absl::IsPermissionDenied(store->ReadAt(key, 0, {&byte, 1})));
    EXPECT_TRUE(absl::IsPermissionDenied(Put(*store, key, "x").status()));
    EXPECT_TRUE(absl::IsPermissionDenied(store->Delete(key)));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(Put(*store, "link/new", "x").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(store->List("link/", "", 10, false).status()));
  EXPECT_THAT(ListAll(*store, "", false)->objects, IsEmpty());
  EXPECT_THAT(TreeOf(*posix_, folder_.path() + "/outside"), ElementsAre("secret"));

  ASSERT_TRUE(posix_->Symlink(root_, folder_.path() + "/root-link").ok());
  const auto through_link = Open(*posix_, {.root = folder_.path() + "/root-link"});
  EXPECT_TRUE(Put(*through_link, "fine", "x").ok()) << "the root itself may be one";
}

TEST_F(FileStoreTest, SaysThatAKeyCannotBeObjectAndFolder) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "a", "x").ok());
  ASSERT_TRUE(Put(*store, "b/c", "x").ok());
  for (const auto& condition : {PutCondition::None(), PutCondition::IfAbsent()}) {
    for (const std::string key : {"a/b", "a/b/c", "b"}) {
      const Status status = Put(*store, key, "y", condition).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << key << " " << status;
    }
  }
  EXPECT_THAT(Tree(), ElementsAre(".tmp.lock", "a", "b", "b/.tmp.lock", "b/c"));
}

TEST_F(FileStoreTest, RemovesFoldersThatDeletesLeaveEmpty) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "runs/x/1.1/delta", "x").ok());
  ASSERT_TRUE(Put(*store, "runs/x/1.1/manifest", "x").ok());
  ASSERT_TRUE(Put(*store, "runs/y/1.1/manifest", "x").ok());
  ASSERT_TRUE(store->Delete("runs/x/1.1/delta").ok());
  ASSERT_TRUE(store->Delete("runs/x/1.1/manifest").ok());
  EXPECT_THAT(Tree(), ElementsAre("runs", "runs/y", "runs/y/1.1", "runs/y/1.1/.tmp.lock",
                                  "runs/y/1.1/manifest"));
  ASSERT_TRUE(store->Delete("runs/y/1.1/manifest").ok());
  EXPECT_THAT(Tree(), IsEmpty());
  EXPECT_TRUE(posix_->Stat(root_).ok()) << "the root stays";
  EXPECT_TRUE(Put(*store, "runs/x/1.1/delta", "x").ok());
}

TEST_F(FileStoreTest, PutsIntoFoldersThatOthersKeepRemoving) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto own = Open(*posix_);
      const std::string key = fmt::format("shared/folder/{}", t);
      for (int i = 0; i < 200; ++i) {
        const Status put =
            Put(*own, key, key, i % 2 ? PutCondition::None() : PutCondition::IfAbsent()).status();
        if (!put.ok() || TextOf(*own, key) != key || !own->Delete(key).ok()) {
          ++failed;
          ADD_FAILURE() << put;
          return;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(Tree(), IsEmpty());
}

TEST_F(FileStoreTest, ListsNoTemporariesLocksOrStrangeNames) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "a/o", "x").ok());
  for (const std::string name : {".tmp-1-2", "a/.tmp-3", "a/with space", "a/\xc3\xa4"}) {
    ASSERT_TRUE(WriteFileAtomically(*posix_, root_ + "/" + name, {}).ok());
  }
  ASSERT_TRUE(posix_->CreateDirectories(root_ + "/empty/folder").ok());
  ASSERT_TRUE(posix_->CreateDirectories(root_ + "/.tmp-folder").ok());
  ASSERT_TRUE(WriteFileAtomically(*posix_, root_ + "/.tmp-folder/o", {}).ok());
  const auto all = ListAll(*store, "", false);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->objects.size(), 1u);
  EXPECT_EQ(all->objects[0].key, "a/o");
  EXPECT_THAT(ListAll(*store, "", true)->prefixes, ElementsAre("a/"));
}

TEST_F(FileStoreTest, SaysThatTheRootIsGoneWhenItIs) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(posix_->Remove(root_).ok());
  EXPECT_TRUE(absl::IsNotFound(store->List("", "", 10, false).status()));
  EXPECT_TRUE(absl::IsNotFound(store->List("a/b", "", 10, false).status()));
}

TEST_F(FileStoreTest, GivesUpWaitingForALockThatAStoppedProcessHolds) {
  const auto store = Open(*posix_, {.root = root_, .lock_timeout_ms = 0});
  ASSERT_TRUE(Put(*store, "a/o", "old").ok());
  auto held = posix_->Lock(root_ + "/a/.tmp.lock", Deadline::Never());
  ASSERT_TRUE(held.ok());
  for (const auto& condition :
       {PutCondition::None(), PutCondition::IfAbsent(), PutCondition::IfMatch("x")}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(Put(*store, "a/o", "new", condition).status()));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(store->Delete("a/o")));
  EXPECT_TRUE(Put(*store, "b/o", "other folder").ok());
  EXPECT_EQ(TextOf(*store, "a/o"), "old");
  EXPECT_THAT(TreeOf(*posix_, root_ + "/a"), ElementsAre(".tmp.lock", "o"));
  held->reset();
  EXPECT_TRUE(Put(*store, "a/o", "new").ok());
}

TEST_F(FileStoreTest, ReadsLargeObjectsForTheirEtagOnlyWhereTimesAreCoarse) {
  const auto store = Open(*posix_);
  const std::string path = root_ + "/large";
  FaultInjector injector(clock_);
  const auto counting = MakeFaultInjectingFilesystem(*posix_, injector);
  const auto counted = Open(*counting);
  const auto etag_with_time = [&](char contents, int64_t nanoseconds) {
    EXPECT_TRUE(Put(*store, "large", std::string(100'000, contents)).ok());
    const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, nanoseconds}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return counted->Stat("large")->etag;
  };
  // As on a file system that keeps seconds, and gives one inode and time to successive files.
  const std::string a = etag_with_time('a', 0), b = etag_with_time('b', 0);
  EXPECT_NE(a, b);
  EXPECT_EQ(a, etag_with_time('a', 0));
  EXPECT_THAT(injector.Log(), HasSubstr("file.Map"));
  const uint64_t before = injector.operations();
  etag_with_time('a', 123'456'789);
  EXPECT_EQ(injector.operations(), before + 2) << "readlink and open, no read\n" << injector.Log();
}

// A file of which only its entry is real, so that reading it fails.
class UnreadableFile final : public ReadableFile {
 public:
  explicit UnreadableFile(DirectoryEntry entry) : entry_(std::move(entry)) {}
  uint64_t size() const override { return entry_.bytes; }
  const DirectoryEntry& entry() const override { return entry_; }
  Status ReadAt(uint64_t, ByteSpan) const override { return DataLoss("read"); }
  StatusOr<ByteView> Map() const override { return DataLoss("mapped"); }

 private:
  DirectoryEntry entry_;
};

TEST(DescribeFile, TellsLargeFilesApartByInodeTimeAndSizeWithoutReadingThem) {
  const auto etag = [](uint64_t bytes, int64_t modified_unix_ns, uint64_t file_id) {
    const auto info = DescribeFile("k", UnreadableFile({.name = "",
                                                        .bytes = bytes,
                                                        .modified_unix_ns = modified_unix_ns,
                                                        .file_id = file_id}));
    return info.ok() ? info->etag : Message(info.status());
  };
  const std::string base = etag(kHashedBytes + 1, 1'000'001, 3);
  EXPECT_NE(base, etag(kHashedBytes + 2, 1'000'001, 3));
  EXPECT_NE(base, etag(kHashedBytes + 1, 1'000'002, 3));
  EXPECT_NE(base, etag(kHashedBytes + 1, 1'000'001, 4));
  EXPECT_EQ(base, etag(kHashedBytes + 1, 1'000'001, 3));
  EXPECT_EQ(etag(kHashedBytes, 1'000'001, 3), "read");
  EXPECT_EQ(etag(kHashedBytes + 1, 1'000'000, 3), "mapped");
}

TEST_F(FileStoreTest, SwapsAndDeletesNothingWhileAnotherIsBetweenComparingAndRenaming) {
  const auto other = Open(*posix_, {.root = root_, .lock_timeout_ms = 0});
  const auto first = Put(*other, "a/o", "1");
  ASSERT_TRUE(first.ok());
  int tried = 0;
  Fault meanwhile = Fault::Always("fs.Rename", OkStatus());
  meanwhile.action = Fault::Action::kCall;
  meanwhile.call = [&] {
    for (const auto& condition :
         {PutCondition::None(), PutCondition::IfAbsent(), PutCondition::IfMatch(first->etag)}) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(Put(*other, "a/o", "3", condition).status()));
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(other->Delete("a/o")));
    EXPECT_EQ(TextOf(*other, "a/o"), "1");
    ++tried;
  };
  FaultInjector injector(clock_, {meanwhile});
  const auto fs = MakeFaultInjectingFilesystem(*posix_, injector);
  EXPECT_TRUE(Put(*Open(*fs), "a/o", "2", PutCondition::IfMatch(first->etag)).ok());
  EXPECT_EQ(tried, 1);
  EXPECT_EQ(TextOf(*other, "a/o"), "2");
}

// The file systems that lack something, made from one that lacks nothing.
class FileStoreOnPoorFilesystem : public FileStoreTest {
 protected:
  std::unique_ptr<Store> OpenWithout(const std::vector<std::string>& calls) {
    std::vector<Fault> faults;
    for (const std::string& call : calls)
      faults.push_back(Fault::Always(call, Unimplemented("no {}", call)));
    injector_.emplace(clock_, faults);
    fs_ = MakeFaultInjectingFilesystem(*posix_, *injector_);
    return Open(*fs_);
  }

  std::optional<FaultInjector> injector_;
  std::unique_ptr<Filesystem> fs_;
};

TEST_F(FileStoreOnPoorFilesystem, FindsOutWhatIsMissing) {
  const auto probe = [&](const std::vector<std::string>& missing) {
    const auto store = OpenWithout(missing);
    const auto can = ProbeFileGuarantees(root_, *fs_, clock_);
    EXPECT_TRUE(can.ok()) << can.status();
    return fmt::format("{}{}{}", can->links ? "links " : "", can->locks ? "locks " : "",
                       can->folder_sync ? "sync " : "");
  };
  EXPECT_EQ(probe({}), "links locks sync ");
  EXPECT_EQ(probe({"fs.Link"}), "locks sync ");
  EXPECT_EQ(probe({"fs.Lock"}), "links sync ");
  EXPECT_EQ(probe({"fs.SyncDirectory"}), "links locks ");
  EXPECT_TRUE(ProbeFileGuarantees(root_, *posix_, clock_)->fine_times);
  EXPECT_THAT(Tree(), IsEmpty()) << "it leaves nothing";
}

TEST(ProbeFileGuarantees, AnswersTheSameAfterAnotherProbeWasKilledAnywhere) {
  VirtualClock clock;  // so that both want the same name
  for (uint64_t seed = 0; seed < 8; ++seed) {
    ForEachFault(clock, {Fault::KillBefore, Fault::KillAfter}, [&](FaultInjector& injector) {
      UnsyncedFilesystem base(clock);
      ASSERT_TRUE(base.CreateDirectories("/bucket").ok());
      const auto fs = MakeFaultInjectingFilesystem(base, injector);
      injector.Survives([&] { ProbeFileGuarantees("/bucket", *fs, clock).status().IgnoreError(); });
      if (seed > 0) base.CrashKeepingSome(seed);
      const auto can = ProbeFileGuarantees("/bucket", base, clock);
      ASSERT_TRUE(can.ok()) << can.status() << injector.Log();
      EXPECT_TRUE(can->links && can->locks && can->folder_sync) << injector.Log();
    });
  }
}

TEST_F(FileStoreOnPoorFilesystem, KeepsBothConditionsUnderTheLockWhereThereAreNoLinks) {
  const auto store = OpenWithout({"fs.Link"});
  EXPECT_TRUE(*store->HonoursConditions());
  const auto first = Put(*store, "o", "1", PutCondition::IfAbsent());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAborted(Put(*store, "o", "2", PutCondition::IfAbsent()).status()));
  EXPECT_TRUE(Put(*store, "o", "2", PutCondition::IfMatch(first->etag)).ok());
  EXPECT_EQ(TextOf(*store, "o"), "2");

  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      if (Put(*store, "race", "x", PutCondition::IfAbsent()).ok()) ++won;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

TEST_F(FileStoreOnPoorFilesystem, RefusesWhatNeedsALockWhereThereIsNone) {
  const auto store = OpenWithout({"fs.Lock"});
  EXPECT_FALSE(*store->HonoursConditions());
  const auto first = Put(*store, "o", "1", PutCondition::IfAbsent());
  ASSERT_TRUE(first.ok()) << "links suffice for this: " << first.status();
  EXPECT_TRUE(absl::IsAborted(Put(*store, "o", "2", PutCondition::IfAbsent()).status()));
  EXPECT_TRUE(
      absl::IsUnimplemented(Put(*store, "o", "2", PutCondition::IfMatch(first->etag)).status()));
  EXPECT_TRUE(Put(*store, "o", "2").ok());
  EXPECT_TRUE(store->Delete("o").ok());
  EXPECT_THAT(Tree(), IsEmpty());

  const auto poorest = OpenWithout({"fs.Lock", "fs.Link"});
  EXPECT_TRUE(absl::IsUnimplemented(Put(*poorest, "o", "1", PutCondition::IfAbsent()).status()));
  EXPECT_TRUE(Put(*poorest, "o", "1").ok());
}

TEST_F(FileStoreOnPoorFilesystem, PutsWhereFoldersCannotBeSynced) {
  const auto store = OpenWithout({"fs.SyncDirectory"});
  EXPECT_TRUE(Put(*store, "a/b", "1").ok());
  EXPECT_TRUE(store->Delete("a/b").ok());
}

// Answers that get lost on the way from a file server.
class FileStoreLosingAnswers : public FileStoreTest {
 protected:
  StatusOr<ObjectInfo> PutLosing(std::string name, Status instead, const PutCondition& condition) {
    Fault fault = Fault::Always(std::move(name), std::move(instead));
    fault.when = Fault::When::kAfter;
    FaultInjector injector(clock_, {fault});
    const auto fs = MakeFaultInjectingFilesystem(*posix_, injector);
    auto store = OpenFileStore({.root = root_}, *fs, clock_);
    return Put(**store, "o", "new", condition);
  }
};

TEST_F(FileStoreLosingAnswers, KnowsItsOwnLinkWhenTheServerSaysThatOneExists) {
  const auto store = Open(*posix_);
  const auto put = PutLosing("fs.Link", AlreadyExists("it exists"), PutCondition::IfAbsent());
  EXPECT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(absl::IsAborted(
      PutLosing("fs.Link", AlreadyExists("it exists"), PutCondition::IfAbsent()).status()));
  EXPECT_THAT(Tree(), ElementsAre(".tmp.lock", "o"));
}

TEST_F(FileStoreLosingAnswers, KnowsItsOwnRenameWhenTheServerSaysThatThereIsNoFile) {
  const auto store = Open(*posix_);
  const auto put = PutLosing("fs.Rename", NotFound("asked twice"), PutCondition::None());
  EXPECT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(TextOf(*store, "o"), "new");
}

TEST_F(FileStoreLosingAnswers, CallsTheOutcomeUnknownWhenTheNewNameMayNotLast) {
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "o", "old").ok());
  const auto put =
      PutLosing("fs.SyncDirectory", ResourceExhausted("no space"), PutCondition::None());
  EXPECT_TRUE(absl::IsUnavailable(put.status())) << put.status();
  EXPECT_THAT(Message(put.status()), HasSubstr("read again"));
  EXPECT_EQ(TextOf(*store, "o"), "new");
}

TEST_F(FileStoreTest, LosesNoIncrementOfFourProcesses) {
  constexpr int kProcesses = 4, kIncrements = 250;
  const auto store = Open(*posix_);
  ASSERT_TRUE(Put(*store, "runs/x/counter", "0").ok());
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(StartProcess([&] {
      // Whoever is about to rename lets the others run, so that a missing lock would show.
      Fault yield = Fault::Always("fs.Rename", OkStatus());
      yield.action = Fault::Action::kCall;
      yield.call = [] { ::sched_yield(); };
      FaultInjector injector(clock_, {yield});
      const auto fs = MakeFaultInjectingFilesystem(*posix_, injector);
      const auto own = OpenFileStore({.root = root_}, *fs, clock_);
      for (int done = 0; own.ok() && done < kIncrements;) {
        const auto now = (*own)->Get("runs/x/counter", 100);
        if (!now.ok()) return 2;
        const std::string next = std::to_string(std::stoi(std::string(AsText(now->bytes))) + 1);
        const Status put =
            Put(**own, "runs/x/counter", next, PutCondition::IfMatch(now->info.etag)).status();
        if (put.ok()) ++done;
        if (!put.ok() && !absl::IsAborted(put)) return 3;
      }
      return own.ok() ? 0 : 4;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(WaitStatus(child), 0);
  EXPECT_EQ(TextOf(*store, "runs/x/counter"), std::to_string(kProcesses * kIncrements));
}

TEST_F(FileStoreTest, SharesItsLockWithAStoreWhoseRootLiesInside) {
  const auto outer = Open(*posix_);
  ASSERT_TRUE(Put(*outer, "runs/counter", "0").ok());
  const auto inner = Open(*posix_, {.root = root_ + "/runs"});
  const auto increment = [](Store& store, std::string_view key) {
    for (int done = 0; done < 100;) {
      const auto now = store.Get(key, 100);
      if (!now.ok()) return ADD_FAILURE() << now.status(), void();
      const std::string next = std::to_string(std::stoi(std::string(AsText(now->bytes))) + 1);
      if (Put(store, key, next, PutCondition::IfMatch(now->info.etag)).ok()) ++done;
    }
  };
  std::thread other([&] { increment(*inner, "counter"); });
  increment(*outer, "runs/counter");
  other.join();
  EXPECT_EQ(TextOf(*outer, "runs/counter"), "200");
}

TEST_F(FileStoreTest, ShowsTheOldOrTheNewObjectWhereverTheProcessIsKilled) {
  const std::string old_text(70'000, 'o'), new_text(90'000, 'n');
  const auto put = [&](FaultInjector& injector) {
    const auto fs = MakeFaultInjectingFilesystem(*posix_, injector);
    const auto store = OpenFileStore({.root = root_}, *fs, clock_);
    return store.ok() && Put(**store, "a/b/o", new_text).ok();
  };
  const auto store = Open(*posix_);
  const uint64_t operations =
      CountOperations(clock_, [&](FaultInjector& counter) { put(counter); });
  for (uint64_t n = 0; n < operations; ++n) {
    for (const auto when : {Fault::When::kBefore, Fault::When::kAfter}) {
      ASSERT_TRUE(Put(*store, "a/b/o", old_text).ok());
      const int status = WaitStatus(StartProcess([&] {
        Fault fault;
        fault.operation = n;
        fault.when = when;
        fault.action = Fault::Action::kKillProcess;
        FaultInjector injector(clock_, {fault});
        put(injector);
        return 0;
      }));
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << n;
      const std::string seen = TextOf(*store, "a/b/o");
      EXPECT_TRUE(seen == old_text || seen == new_text) << n;
      // The lock died with the process, and what it left can be cleared away.
      const auto removed = RemoveStaleTemporaries(root_, 0, *posix_, clock_);
      ASSERT_TRUE(removed.ok()) << removed.status();
      EXPECT_THAT(Tree(), ElementsAre("a", "a/b", "a/b/.tmp.lock", "a/b/o"));
    }
  }
  EXPECT_GE(operations, 14u);
}

TEST(RemoveStaleTemporaries, RemovesOldTemporariesAndEmptyFoldersOnly) {
  VirtualClock clock;
  UnsyncedFilesystem fs(clock);
  const auto store = OpenFileStore({.root = "/bucket", .create = true}, fs, clock);
  ASSERT_TRUE(store.ok());
  const auto make = [&](const std::string& path) {
    ASSERT_TRUE(fs.Create("/bucket/" + path).ok()) << path;
  };
  ASSERT_TRUE((*store)->Put("a/o", MemorySource({}), PutCondition::None()).ok());
  ASSERT_TRUE(fs.CreateDirectories("/bucket/emptied/inner").ok());
  make("a/.tmp-old");
  make(".tmp-old");
  make("emptied/inner/.tmp-old");
  make("emptied/inner/.tmp.lock");
  make("a/old.tmp-1-2");  // a key like any other
  clock.SleepFor(10 * kSecondNs);
  ASSERT_TRUE(fs.CreateDirectories("/bucket/young").ok());
  make("a/.tmp-young");

  const auto removed = RemoveStaleTemporaries("/bucket", 5 * kSecondNs, fs, clock);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, 3u);
  std::string names;
  for (const std::string folder : {"/bucket", "/bucket/a"}) {
    const auto entries = fs.List(folder);
    for (const DirectoryEntry& entry : *entries) names += entry.name + ' ';
  }
  EXPECT_EQ(names, "a young .tmp-young .tmp.lock o old.tmp-1-2 ");
  clock.SleepFor(10 * kSecondNs);
  EXPECT_EQ(*RemoveStaleTemporaries("/bucket", 5 * kSecondNs, fs, clock), 1u);
  EXPECT_TRUE(absl::IsNotFound(fs.Stat("/bucket/young").status()));
  EXPECT_TRUE(fs.Stat("/bucket/a/o").ok());
  EXPECT_TRUE(absl::IsNotFound(RemoveStaleTemporaries("/none", 0, fs, clock).status()));
}

TEST(RemoveStaleTemporaries, LeavesAFolderWhoseLockIsHeld) {
  VirtualClock clock;
  UnsyncedFilesystem fs(clock);
  ASSERT_TRUE(fs.CreateDirectories("/bucket/a").ok());
  const auto held = fs.Lock("/bucket/a/.tmp.lock", Deadline::Never());
  clock.SleepFor(10 * kSecondNs);
  ASSERT_TRUE(RemoveStaleTemporaries("/bucket", kSecondNs, fs, clock).ok());
  EXPECT_TRUE(fs.Stat("/bucket/a/.tmp.lock").ok());
}

}  // namespace
}  // namespace pulse
