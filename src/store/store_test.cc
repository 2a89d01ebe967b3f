// The conformance suite over the stores that need no network: memory, and files on the machine's
// own file system and on the one that forgets; each also behind decorators that inject nothing.
#include "store/store.h"

#include <algorithm>

#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/file_store.h"
#include "store/forwarding_store.h"
#include "store/memory_store.h"
#include "store/store_conformance.h"
#include "store/temporary_folder.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

class MemoryBackend final : public StoreBackend {
 public:
  Store& store() override { return *store_; }

 private:
  RealClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
};

// The same behind a decorator that injects nothing.
class DecoratedMemoryBackend final : public StoreBackend {
 public:
  Store& store() override { return *store_; }

 private:
  RealClock clock_;
  std::unique_ptr<Store> base_ = MakeMemoryStore(clock_);
  FaultInjector injector_{clock_};
  std::unique_ptr<Store> store_ = MakeFaultInjectingStore(*base_, injector_);
};

// A file store for each thread, as if each were a process.
class FileBackend final : public StoreBackend {
 public:
  enum class Base { kPosix, kUnsynced };

  FileBackend(Base base, bool decorated) {
    if (base == Base::kPosix) {
      base_ = MakePosixFilesystem();
      root_ = folder_.path() + "/bucket";
    } else {
      base_ = std::make_unique<UnsyncedFilesystem>(clock_);
      root_ = "/new/bucket";
    }
    if (decorated) decorated_ = MakeFaultInjectingFilesystem(*base_, injector_);
    store_ = OpenAnother();
  }

  Store& store() override { return *store_; }

  std::unique_ptr<Store> OpenAnother() override {
    Filesystem& fs = decorated_ == nullptr ? *base_ : *decorated_;
    auto store = OpenFileStore({.root = root_, .create = true}, fs, clock_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

 private:
  TemporaryFolder folder_{TemporaryFolder::Where::kMemory};
  RealClock clock_;
  FaultInjector injector_{clock_};
  std::unique_ptr<Filesystem> base_, decorated_;
  std::string root_;
  std::unique_ptr<Store> store_;
};

StoreBackendParam File(std::string name, FileBackend::Base base, bool decorated) {
  return {std::move(name), {}, [=] { return std::make_unique<FileBackend>(base, decorated); }};
}

INSTANTIATE_TEST_SUITE_P(
    Local, StoreConformance,
    testing::Values(
        StoreBackendParam{"Memory", {}, [] { return std::make_unique<MemoryBackend>(); }},
        StoreBackendParam{
            "DecoratedMemory", {}, [] { return std::make_unique<DecoratedMemoryBackend>(); }},
        File("Files", FileBackend::Base::kPosix, false),
        File("FilesDecorated", FileBackend::Base::kPosix, true),
        File("UnsyncedFiles", FileBackend::Base::kUnsynced, false),
        File("UnsyncedFilesDecorated", FileBackend::Base::kUnsynced, true)),
    NameOfBackend);

// As a server that gives two at a time, whatever is asked.
class ShortPages final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    return inner_.List(prefix, after, std::min(limit, size_t{2}), delimited);
  }
};

TEST(ListAll, GoesOnAfterPagesShorterThanAskedFor) {
  VirtualClock clock;
  const auto base = MakeMemoryStore(clock);
  for (const std::string key : {"a/1", "a/2", "b/1", "c", "d/1", "e"}) {
    ASSERT_TRUE(base->Put(key, MemorySource({}), PutCondition::None()).ok());
  }
  ShortPages store(*base);
  const auto flat = ListAll(store, "", false);
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_EQ(flat->objects.size(), 6u);
  EXPECT_TRUE(flat->next.empty());
  const auto folders = ListAll(store, "", true);
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_EQ(folders->prefixes, (std::vector<std::string>{"a/", "b/", "d/"}));
  EXPECT_EQ(folders->objects.size(), 2u);
}

TEST(CheckKey, NamesTheKeyAndItsFaultPrintably) {
  EXPECT_EQ(CheckKey("runs/x/1.2.ab=_-/HEAD"), OkStatus());
  EXPECT_EQ(CheckKey("a\nb").message(),
            "key \"a\\x0ab\": a character is not one of [A-Za-z0-9._=-]");
  EXPECT_EQ(CheckKey("a//b").message(), "key \"a//b\": a segment is empty");
  EXPECT_LT(CheckKey(std::string(100'000, 'k')).message().size(), 200u);
}

}  // namespace
}  // namespace pulse
