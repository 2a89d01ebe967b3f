#include "store/store_conformance.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/rng.h"

namespace pulse {
namespace {

constexpr uint64_t kPlenty = uint64_t{64} << 20;

#define SKIP_UNLESS(capability) \
  if (!can().capability) GTEST_SKIP() << "the backend has no " #capability

Bytes Pattern(size_t size, uint32_t seed) {
  Bytes bytes(size);
  Rng rng(seed, {});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  return bytes;
}

std::string TextOf(const Object& object) {
  return std::string(AsText(object.bytes));
}

// Fails after some bytes, as a file on a failing disk.
class FailingSource final : public ByteSource {
 public:
  uint64_t size() const override { return 3 << 20; }
  Status Read(uint64_t offset, ByteSpan out) const override {
    if (offset + out.size() > size() / 2) return DataLoss("the source fails");
    std::fill(out.begin(), out.end(), uint8_t{7});
    return OkStatus();
  }
};

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformance);

void StoreConformance::SetUp() {
  backend_ = GetParam().make();
  ASSERT_NE(backend_, nullptr);
}

ObjectInfo StoreConformance::Fill(const std::string& key, ByteView bytes) {
  auto info = backend_->filler().Put(key, MemorySource(bytes), PutCondition::None());
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? *info : ObjectInfo{};
}

std::string StoreConformance::TextOf(const std::string& key) {
  const auto object = store().Get(key, kPlenty);
  return object.ok() ? pulse::TextOf(*object) : object.status().ToString();
}

StatusOr<ObjectInfo> StoreConformance::Put(const std::string& key, std::string_view text,
                                           const PutCondition& condition) {
  return store().Put(key, MemorySource(AsBytes(text)), condition);
}

void StoreConformance::WithStores(int count, const std::function<void(Store&, int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Store> own = backend_->OpenAnother();
      work(own == nullptr ? store() : *own, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string StoreConformance::Listing(std::string_view prefix, bool delimited, size_t limit) {
  std::vector<std::string> names;
  std::string after;
  do {
    const auto page = store().List(prefix, after, limit, delimited);
    if (!page.ok()) return page.status().ToString();
    EXPECT_LE(page->objects.size() + page->prefixes.size(), limit);
    std::vector<std::string> on_page = page->prefixes;
    for (const ObjectInfo& object : page->objects) on_page.push_back(object.key);
    std::sort(on_page.begin(), on_page.end());
    names.insert(names.end(), on_page.begin(), on_page.end());
    if (!page->next.empty() && page->next <= after) return "does not advance past " + after;
    after = page->next;
  } while (!after.empty());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  return fmt::format("{}", fmt::join(names, " "));
}

TEST_P(StoreConformance, GivesBackWhatWasPutWhateverItsSize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}, size_t{5} << 20}) {
    const Bytes bytes = Pattern(size, static_cast<uint32_t>(size));
    const std::string key = fmt::format("sizes/{}", size);
    const ObjectInfo put = Fill(key, bytes);
    const auto got = store().Get(key, size);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->bytes == bytes) << size;
    EXPECT_EQ(got->info.bytes, size);
    EXPECT_EQ(got->info.key, key);

    const auto stat = store().Stat(key);
    ASSERT_TRUE(stat.ok()) << stat.status();
    EXPECT_EQ(stat->key, key);
    EXPECT_EQ(stat->bytes, size);
    EXPECT_EQ(stat->etag, got->info.etag);
    EXPECT_FALSE(stat->etag.empty());
    EXPECT_GT(stat->modified_unix_ns, 0);
    if (can().writes) {
      EXPECT_EQ(stat->etag, put.etag);
    }
  }
}

TEST_P(StoreConformance, SaysNotFoundWhereThereIsNoObject) {
  Fill("folder/object", "x");
  uint8_t byte = 0;
  for (const std::string key :
       {"none", "none/deeper/still", "folder", "folder/objec", "folder/object2"}) {
    EXPECT_TRUE(absl::IsNotFound(store().Stat(key).status())) << key;
    EXPECT_TRUE(absl::IsNotFound(store().Get(key, kPlenty).status())) << key;
    EXPECT_TRUE(absl::IsNotFound(store().ReadAt(key, 0, {&byte, 1}))) << key;
  }
}

TEST_P(StoreConformance, RefusesToGetMoreThanTheBound) {
  Fill("o", "12345");
  EXPECT_TRUE(absl::IsResourceExhausted(store().Get("o", 4).status()));
  EXPECT_TRUE(store().Get("o", 5).ok());
}

TEST_P(StoreConformance, ReadsRangesAndNothingBeyondTheEnd) {
  const Bytes bytes = Pattern(100'000, 1);
  Fill("ranges", bytes);
  const std::pair<uint64_t, size_t> ranges[] = {
      {0, 1}, {0, 100'000}, {1, 99'998}, {99'999, 1}, {65'535, 10}, {0, 0}, {100'000, 0}};
  for (const auto& [offset, size] : ranges) {
    Bytes out(size);
    const Status status = store().ReadAt("ranges", offset, out);
    ASSERT_TRUE(status.ok()) << status << " " << offset << " " << size;
    EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.begin() + static_cast<ptrdiff_t>(offset)));
  }
  const std::pair<uint64_t, size_t> beyond[] = {
      {99'999, 2},  {100'000, 1},           {100'001, 1},
      {0, 100'001}, {uint64_t{1} << 62, 4}, {~uint64_t{0}, 1}};
  for (const auto& [offset, size] : beyond) {
    Bytes out(size);
    EXPECT_TRUE(absl::IsDataLoss(store().ReadAt("ranges", offset, out))) << offset << " " << size;
  }
}

TEST_P(StoreConformance, ReplacesAnObjectWhole) {
  Fill("o", Pattern(200'000, 1));
  Fill("o", "short");
  EXPECT_EQ(TextOf("o"), "short");
  EXPECT_EQ(store().Stat("o")->bytes, 5u);
}

TEST_P(StoreConformance, GivesDifferentContentsDifferentEtagsHoweverOftenReplaced) {
  for (const size_t size : {size_t{8}, size_t{100'000}}) {
    std::map<std::string, uint32_t> contents_of;
    for (uint32_t i = 0; i < 60; ++i) {  // same size each, so that little else tells them apart
      Fill("o", Pattern(size, i % 20));
      const auto [it, fresh] = contents_of.try_emplace(store().Stat("o")->etag, i % 20);
      EXPECT_EQ(it->second, i % 20) << "an etag came back with other contents";
    }
  }
}

TEST_P(StoreConformance, ListsInOrderOfTheWholeKeyAndNotFolderByFolder) {
  SKIP_UNLESS(lists);
  // '-' and '.' sort before '/', digits and letters behind it.
  for (const std::string key :
       {"a/b", "a-b", "a.b", "a0", "a/b-c/d", "a/b.c", "aa/x", "A", "=/x", "a_"}) {
    Fill(key, key);
  }
  const std::string all = "=/x A a-b a.b a/b a/b-c/d a/b.c a0 a_ aa/x";
  for (const size_t limit : {1, 2, 3, 9, 10, 11, 1000}) EXPECT_EQ(Listing("", false, limit), all);
  const auto page = store().List("", "", 1000, false);
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->next.empty());
  for (const ObjectInfo& object : page->objects) EXPECT_EQ(object.bytes, object.key.size());
}

TEST_P(StoreConformance, ListsByAnyPrefixOfAKey) {
  SKIP_UNLESS(lists);
  for (const std::string key :
       {"runs/x/1.1/m", "runs/x/1.10/m", "runs/x/HEAD", "runs/xy/HEAD", "s"}) {
    Fill(key, "");
  }
  EXPECT_EQ(Listing("runs/x/1.1", false), "runs/x/1.1/m runs/x/1.10/m");
  EXPECT_EQ(Listing("runs/x/1.1/", false), "runs/x/1.1/m");
  EXPECT_EQ(Listing("runs/x", false), "runs/x/1.1/m runs/x/1.10/m runs/x/HEAD runs/xy/HEAD");
  EXPECT_EQ(Listing("runs/x/HEAD", false), "runs/x/HEAD");
  EXPECT_EQ(Listing("s", false), "s");
  for (const std::string none :
       {"t", "s/", "runs/x/HEAD/", "runs/x/1.1/m0", "runs//", "../", "/", "runs/../"}) {
    EXPECT_EQ(Listing(none, false), "") << none;
    EXPECT_EQ(Listing(none, true), "") << none;
  }
}

TEST_P(StoreConformance, RollsFoldersUpWhenDelimited) {
  SKIP_UNLESS(lists);
  for (const std::string key : {"runs/x/1.1/m", "runs/x/1.1/deep/er", "runs/x/1.10/m",
                                "runs/x/HEAD", "runs/x-1/HEAD", "runs/x.1", "top"}) {
    Fill(key, "");
  }
  for (const size_t limit : {1, 2, 3, 1000}) {
    EXPECT_EQ(Listing("", true, limit), "runs/ top");
    EXPECT_EQ(Listing("runs/", true, limit), "runs/x-1/ runs/x.1 runs/x/");
    EXPECT_EQ(Listing("runs/x/", true, limit), "runs/x/1.1/ runs/x/1.10/ runs/x/HEAD");
    EXPECT_EQ(Listing("runs/x/1.1", true, limit), "runs/x/1.1/ runs/x/1.10/");
    EXPECT_EQ(Listing("runs/x", true, limit), "runs/x-1/ runs/x.1 runs/x/");
  }
  const auto page = store().List("runs/", "", 1000, true);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->prefixes, (std::vector<std::string>{"runs/x-1/", "runs/x/"}));
}

TEST_P(StoreConformance, ListsOnlyKeysBehindTheGivenOne) {
  SKIP_UNLESS(lists);
  for (const std::string key : {"a/1", "a/2", "a/3", "b"}) Fill(key, "");
  const auto keys_after = [&](std::string_view after) {
    const auto page = store().List("", after, 1000, false);
    if (!page.ok()) return page.status().ToString();
    std::string keys;
    for (const ObjectInfo& object : page->objects) keys += object.key + ' ';
    return keys;
  };
  EXPECT_EQ(keys_after("a/1"), "a/2 a/3 b ");
  EXPECT_EQ(keys_after("a/10"), "a/2 a/3 b ");  // no such key
  EXPECT_EQ(keys_after("a"), "a/1 a/2 a/3 b ");
  EXPECT_EQ(keys_after("a/3"), "b ");
  EXPECT_EQ(keys_after("b"), "");
  EXPECT_TRUE(absl::IsInvalidArgument(store().List("", "", 0, false).status()));
}

TEST_P(StoreConformance, GathersAllPages) {
  SKIP_UNLESS(lists);
  for (int i = 0; i < 1003; ++i) Fill(fmt::format("many/{:04}", i), "");
  const auto all = ListAll(store(), "many/", false);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->objects.size(), 1003u);
  EXPECT_EQ(all->objects.back().key, "many/1002");
  const auto folders = ListAll(store(), "", true);
  ASSERT_TRUE(folders.ok());
  EXPECT_EQ(folders->prefixes, std::vector<std::string>{"many/"});
}

TEST_P(StoreConformance, RefusesBadKeysBeforeTouchingAnything) {
  std::string long_key = "k";
  while (long_key.size() < 511) long_key += "/k";
  long_key += 'k';  // 512
  Fill(long_key, "longest");
  EXPECT_EQ(TextOf(long_key), "longest");
  std::string nul = "a";
  nul += '\0';
  uint8_t byte = 0;
  for (const std::string& key : {std::string(),
                                 std::string("/"),
                                 std::string("/a"),
                                 std::string("a/"),
                                 std::string("a//b"),
                                 std::string("."),
                                 std::string(".."),
                                 std::string("../a"),
                                 std::string("a/../../b"),
                                 std::string("a/."),
                                 std::string(".tmp"),
                                 std::string(".tmp-1"),
                                 std::string("a/.tmpx/b"),
                                 std::string("a b"),
                                 std::string("a\\b"),
                                 std::string("a\nb"),
                                 std::string("\xc3\xa4"),
                                 std::string("a%2f"),
                                 std::string("a:b"),
                                 nul,
                                 long_key + "k",
                                 std::string(256, 'k')}) {
    const auto refuses = [](const Status& status) { return absl::IsInvalidArgument(status); };
    EXPECT_TRUE(refuses(store().Stat(key).status())) << key;
    EXPECT_TRUE(refuses(store().Get(key, kPlenty).status())) << key;
    EXPECT_TRUE(refuses(store().ReadAt(key, 0, {&byte, 1}))) << key;
    if (!can().writes) continue;
    EXPECT_TRUE(refuses(Put(key, "x").status())) << key;
    EXPECT_TRUE(refuses(store().Delete(key))) << key;
  }
  if (can().lists) {
    EXPECT_EQ(Listing("", false), long_key);
  }
}

TEST_P(StoreConformance, TakesOddButGoodKeys) {
  for (const std::string& key :
       {std::string("..."), std::string(".hidden"), std::string("a..b"), std::string("-"),
        std::string("=_=."), std::string(255, 'k'), std::string("tmp"), std::string("a.tmp-1-2")}) {
    Fill(key, key);
    EXPECT_EQ(TextOf(key), key);
  }
}

TEST_P(StoreConformance, DeletesOneObjectAndNoOther) {
  SKIP_UNLESS(writes);
  for (const std::string key : {"a/b", "a/c/d", "a/c/e", "ab"}) Fill(key, "x");
  ASSERT_TRUE(store().Delete("a/c/d").ok());
  EXPECT_TRUE(absl::IsNotFound(store().Stat("a/c/d").status()));
  EXPECT_TRUE(store().Delete("a/c/d").ok()) << "again";
  EXPECT_TRUE(store().Delete("never/was").ok());
  EXPECT_TRUE(store().Delete("a").ok()) << "a folder is no object";
  if (can().lists) {
    EXPECT_EQ(Listing("", false), "a/b a/c/e ab");
  }
  for (const std::string key : {"a/b", "a/c/e", "ab"}) EXPECT_TRUE(store().Delete(key).ok());
  if (can().lists) {
    EXPECT_EQ(Listing("", true), "");
  }
  Fill("a/c/d", "again");
  EXPECT_EQ(TextOf("a/c/d"), "again");
}

TEST_P(StoreConformance, KeepsTheOldObjectWhenTheSourceFails) {
  SKIP_UNLESS(writes);
  Fill("o", "old");
  EXPECT_TRUE(absl::IsDataLoss(store().Put("o", FailingSource(), PutCondition::None()).status()));
  EXPECT_TRUE(absl::IsDataLoss(store().Put("new", FailingSource(), PutCondition::None()).status()));
  EXPECT_EQ(TextOf("o"), "old");
  if (can().lists) {
    EXPECT_EQ(Listing("", false), "o");
  }
}

TEST_P(StoreConformance, RefusesWhatItCannotDo) {
  if (!can().writes) {
    EXPECT_TRUE(absl::IsPermissionDenied(Put("o", "x").status()));
    EXPECT_TRUE(absl::IsPermissionDenied(store().Delete("o")));
  }
  if (can().writes && !can().conditions) {
    EXPECT_TRUE(absl::IsUnimplemented(Put("o", "x", PutCondition::IfAbsent()).status()));
    EXPECT_TRUE(absl::IsUnimplemented(Put("o", "x", PutCondition::IfMatch("e")).status()));
  }
  if (can().writes) {
    const auto honours = store().HonoursConditions();
    ASSERT_TRUE(honours.ok()) << honours.status();
    EXPECT_EQ(*honours, can().conditions);
  }
  if (!can().lists) {
    EXPECT_TRUE(absl::IsUnimplemented(store().List("", "", 10, false).status()));
  }
  EXPECT_FALSE(store().uri().empty());
}

TEST_P(StoreConformance, PutsIfAbsentOnlyOnce) {
  SKIP_UNLESS(conditions);
  const auto first = Put("o", "first", PutCondition::IfAbsent());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAborted(Put("o", "second", PutCondition::IfAbsent()).status()));
  EXPECT_EQ(TextOf("o"), "first");
  EXPECT_EQ(store().Stat("o")->etag, first->etag);
  ASSERT_TRUE(store().Delete("o").ok());
  EXPECT_TRUE(Put("o", "third", PutCondition::IfAbsent()).ok());
  EXPECT_EQ(TextOf("o"), "third");
}

TEST_P(StoreConformance, PutsIfMatchingOnlyOverThatVeryObject) {
  SKIP_UNLESS(conditions);
  EXPECT_TRUE(absl::IsAborted(Put("o", "x", PutCondition::IfMatch("nonsense")).status()));
  EXPECT_TRUE(absl::IsNotFound(store().Stat("o").status()));
  const auto first = Put("o", "first");
  const auto second = Put("o", "second", PutCondition::IfMatch(first->etag));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(TextOf("o"), "second");
  EXPECT_TRUE(absl::IsAborted(Put("o", "third", PutCondition::IfMatch(first->etag)).status()));
  EXPECT_TRUE(absl::IsAborted(Put("o", "third", PutCondition::IfMatch("")).status()));
  EXPECT_EQ(TextOf("o"), "second");
  ASSERT_TRUE(store().Delete("o").ok());
  EXPECT_TRUE(absl::IsAborted(Put("o", "third", PutCondition::IfMatch(second->etag)).status()));
  EXPECT_TRUE(absl::IsNotFound(store().Stat("o").status()));
}

TEST_P(StoreConformance, LetsExactlyOneOfManyPutIfAbsent) {
  SKIP_UNLESS(conditions);
  constexpr int kThreads = 8, kRounds = 12;
  std::atomic<int> winners[kRounds] = {}, strange = 0;
  std::atomic<int> winner[kRounds] = {};
  WithStores(kThreads, [&](Store& own, int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const std::string text = fmt::format("thread {}", thread);
      const Status status = own.Put(fmt::format("race/{}", round), MemorySource(AsBytes(text)),
                                    PutCondition::IfAbsent())
                                .status();
      if (status.ok()) winner[round] = thread;
      if (status.ok()) ++winners[round];
      if (!status.ok() && !absl::IsAborted(status)) ++strange;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(winners[round], 1);
    EXPECT_EQ(TextOf(fmt::format("race/{}", round)),
              fmt::format("thread {}", winner[round].load()));
  }
  EXPECT_EQ(strange, 0);
}

TEST_P(StoreConformance, LosesNoIncrementOfACounterThatManySwap) {
  SKIP_UNLESS(conditions);
  constexpr int kThreads = 8;
  Fill("counter", "0");
  std::atomic<int> strange = 0;
  WithStores(kThreads, [&](Store& own, int) {
    for (int done = 0; done < GetParam().increments_per_thread;) {
      const auto now = own.Get("counter", 100);
      if (!now.ok()) {
        ++strange;
        return;
      }
      const std::string next = std::to_string(std::stoi(pulse::TextOf(*now)) + 1);
      const Status status =
          own.Put("counter", MemorySource(AsBytes(next)), PutCondition::IfMatch(now->info.etag))
              .status();
      if (status.ok()) ++done;
      if (!status.ok() && !absl::IsAborted(status)) {
        ADD_FAILURE() << status;
        return;
      }
    }
  });
  EXPECT_EQ(strange, 0);
  EXPECT_EQ(TextOf("counter"), std::to_string(kThreads * GetParam().increments_per_thread));
}

TEST_P(StoreConformance, NeverShowsHalfAnObjectWhileItIsReplacedAndDeleted) {
  SKIP_UNLESS(writes);
  SKIP_UNLESS(whole_replacements);
  constexpr size_t kSize = 150'000;
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0, strange = 0;
  std::mutex mutex;
  std::map<std::string, uint8_t> contents_of;  // by etag; guarded by mutex
  WithStores(4, [&](Store& own, int thread) {
    if (thread < 2) {
      for (int i = 0; i < 40; ++i) {
        const Bytes bytes(kSize, static_cast<uint8_t>(2 * i + thread));
        if (!own.Put("folder/o", MemorySource(bytes), PutCondition::None()).ok()) ++strange;
        if (i % 8 == 7 && !own.Delete("folder/o").ok()) ++strange;
      }
      done = true;
      return;
    }
    while (!done) {
      const auto got = own.Get("folder/o", kPlenty);
      if (!got.ok() && !absl::IsNotFound(got.status())) ++strange;
      if (!got.ok()) continue;
      const Bytes whole(kSize, got->bytes.empty() ? uint8_t{0} : got->bytes[0]);
      if (got->bytes != whole) ++torn;
      const std::lock_guard lock(mutex);
      if (contents_of.try_emplace(got->info.etag, whole[0]).first->second != whole[0]) ++torn;
    }
  });
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(strange, 0);
}

}  // namespace pulse
