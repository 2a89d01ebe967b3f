// The conformance suite over the stores that need no network: memory, and files on the machine's
// own file system and on the one that forgets; each also behind decorators that inject nothing.
#include "store/store.h"

#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"
#include "store/file_store.h"
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

}  // namespace
}  // namespace pulse
