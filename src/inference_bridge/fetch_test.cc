#include "inference_bridge/fetch.h"

#include <gtest/gtest.h>

#include "core/clock.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "store/fault_injecting_filesystem.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"

namespace pulse {
namespace {

class FetchTest : public testing::Test {
 protected:
  FetchItem Put(const std::string& key, size_t bytes) {
    Bytes contents(bytes);
    for (uint8_t& byte : contents) byte = static_cast<uint8_t>(rng_.U32());
    EXPECT_TRUE(store_->Put(key, MemorySource(contents), PutCondition::None()).ok());
    contents_.push_back(contents);
    return {key, bytes, Sha256Hex(contents)};
  }

  void ExpectFetched(const Fetched& fetched) {
    ASSERT_TRUE(fetched.status.ok()) << fetched.status;
    ASSERT_EQ(fetched.sources.size(), contents_.size());
    for (size_t i = 0; i < contents_.size(); ++i) {
      Bytes bytes(fetched.sources[i]->size());
      ASSERT_TRUE(fetched.sources[i]->Read(0, bytes).ok());
      EXPECT_EQ(bytes, contents_[i]) << i;
    }
    EXPECT_TRUE(fs_.List("/")->empty()) << "a spool was left behind";
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  UnsyncedFilesystem fs_{clock_};
  Rng rng_{1, {}};
  std::vector<Bytes> contents_;
};

TEST_F(FetchTest, BringsEveryObjectWhateverTheParallelismAndTheMemory) {
  std::vector<FetchItem> items;
  for (const size_t bytes : {0, 1, 99, 100, 101, 1000, 0, 12345}) {
    items.push_back(Put(fmt::format("k{}", items.size()), bytes));
  }
  for (const int parallel : {1, 2, 9}) {
    for (const uint64_t memory : {0, 150, 1 << 20}) {
      FetchOptions options{.parallel = parallel,
                           .piece_bytes = 100,
                           .memory_bytes = memory,
                           .spool_path = "/spool-"};
      uint64_t last = 0;
      options.on_bytes = [&](uint64_t done) {
        EXPECT_GE(done, last);
        last = done;
        return OkStatus();
      };
      ExpectFetched(FetchObjects(*store_, fs_, items, options));
      EXPECT_EQ(last, 1u + 99 + 100 + 101 + 1000 + 12345);
    }
  }
  ExpectFetched(FetchObjects(*store_, fs_, items, {.spool_path = "/spool-"}));
}

TEST_F(FetchTest, NothingToFetchIsFine) {
  EXPECT_TRUE(FetchObjects(*store_, fs_, {}, {}).status.ok());
}

TEST_F(FetchTest, RefusesAnObjectThatIsNotWhatItsHashSays) {
  const std::vector<FetchItem> items = {Put("a", 500), Put("b", 500)};
  for (const size_t at : {0, 99, 100, 499}) {
    for (const uint64_t memory : {0, 1 << 20}) {
      Bytes damaged = contents_[1];
      damaged[at] ^= 1;
      ASSERT_TRUE(store_->Put("b", MemorySource(damaged), PutCondition::None()).ok());
      const Fetched fetched = FetchObjects(
          *store_, fs_, items,
          {.parallel = 3, .piece_bytes = 100, .memory_bytes = memory, .spool_path = "/spool-"});
      EXPECT_TRUE(absl::IsDataLoss(fetched.status));
      EXPECT_EQ(fetched.failed_key, "b");
      EXPECT_TRUE(fetched.sources.empty());
      EXPECT_TRUE(fs_.List("/")->empty());
    }
  }
}

TEST_F(FetchTest, RefusesATruncatedObject) {
  const std::vector<FetchItem> items = {Put("a", 500)};
  for (const size_t size : {0, 1, 400, 499}) {
    ASSERT_TRUE(
        store_->Put("a", MemorySource(ByteView(contents_[0]).first(size)), PutCondition::None())
            .ok());
    const Fetched fetched = FetchObjects(*store_, fs_, items, {.piece_bytes = 100});
    EXPECT_TRUE(absl::IsDataLoss(fetched.status)) << fetched.status;
    EXPECT_EQ(fetched.failed_key, "a");
  }
}

TEST_F(FetchTest, NamesTheObjectThatIsGone) {
  std::vector<FetchItem> items = {Put("a", 500), Put("b", 1)};
  ASSERT_TRUE(store_->Delete("b").ok());
  const Fetched fetched = FetchObjects(*store_, fs_, items, {});
  EXPECT_TRUE(absl::IsNotFound(fetched.status));
  EXPECT_EQ(fetched.failed_key, "b");
}

TEST_F(FetchTest, AFullDiskIsNoFaultOfTheObject) {
  const std::vector<FetchItem> items = {Put("a", 500)};
  uint64_t failures = 0;
  ForEachFault(
      clock_, {[](uint64_t operation) {
        Fault fault = Fault::FailBefore(operation);
        fault.status = NotFound("the folder is gone");
        return fault;
      }},
      [&](FaultInjector& injector) {
        const auto fs = MakeFaultInjectingFilesystem(fs_, injector);
        const Fetched fetched = FetchObjects(
            *store_, *fs, items,
            {.parallel = 1, .piece_bytes = 100, .memory_bytes = 0, .spool_path = "/spool-"});
        if (injector.Plan().empty()) return;
        ++failures;
        EXPECT_TRUE(absl::IsNotFound(fetched.status)) << injector.Log();
        EXPECT_EQ(fetched.failed_key, "") << injector.Log();
        if (fs_.Stat("/spool-0").ok()) fs_.Remove("/spool-0").IgnoreError();
      });
  EXPECT_GE(failures, 5u);  // create, append, close, open, map, remove
}

}  // namespace
}  // namespace pulse
