#include "store/memory_store.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "store/listing.h"

namespace pulse {
namespace {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(const Clock& clock) : clock_(clock) {}

  const std::string& uri() const override { return uri_; }
  StatusOr<bool> HonoursConditions() override { return true; }

  StatusOr<ObjectInfo> Stat(std::string_view key) override {
    PULSE_ASSIGN_OR_RETURN(Entry entry, Find(key));
    return entry.info;
  }

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    PULSE_ASSIGN_OR_RETURN(Entry entry, Find(key));
    if (entry.info.bytes > max_bytes) {
      return ResourceExhausted("{}: object \"{}\" has {} bytes, above the bound of {}", uri_, key,
                               entry.info.bytes, max_bytes);
    }
    return Object{std::move(entry.info), *entry.bytes};
  }

  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    PULSE_ASSIGN_OR_RETURN(const Entry entry, Find(key));
    if (offset > entry.bytes->size() || out.size() > entry.bytes->size() - offset) {
      return DataLoss("{}: object \"{}\" has {} bytes: can't read {} at {}", uri_, key,
                      entry.bytes->size(), out.size(), offset);
    }
    std::copy_n(entry.bytes->begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return OkStatus();
  }

  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    auto bytes = std::make_shared<Bytes>(source.size());
    PULSE_RETURN_IF_ERROR(source.Read(0, *bytes));

    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    const bool exists = found != objects_.end();
    if (condition.kind == PutCondition::Kind::kIfAbsent && exists) {
      return Aborted("{}: put \"{}\" if absent: it exists", uri_, key);
    }
    if (condition.kind == PutCondition::Kind::kIfMatch &&
        (!exists || found->second.info.etag != condition.etag)) {
      return Aborted("{}: put \"{}\" if its etag is {}: {}", uri_, key, condition.etag,
                     exists ? "it is now " + found->second.info.etag : "it is gone");
    }
    Entry& entry = objects_[std::string(key)];
    entry.info = {std::string(key), bytes->size(), clock_.UnixNs(), fmt::format("{}", ++puts_)};
    entry.bytes = std::move(bytes);
    return entry.info;
  }

  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    if (limit == 0) return InvalidArgument("{}: list with a limit of 0: it must be positive", uri_);
    PageBuilder page(prefix, after, limit, delimited);
    const std::lock_guard lock(mutex_);
    for (auto it = objects_.lower_bound(std::max(prefix, after));
         it != objects_.end() && page.Add(it->second.info); ++it) {
      if (!it->first.starts_with(prefix) && it->first > prefix) break;
    }
    return page.Take();
  }

  Status Delete(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    const std::lock_guard lock(mutex_);
    if (const auto found = objects_.find(key); found != objects_.end()) objects_.erase(found);
    return OkStatus();
  }

 private:
  struct Entry {
    ObjectInfo info;
    std::shared_ptr<const Bytes> bytes;  // shared, so that readers copy outside the lock
  };

  StatusOr<Entry> Find(std::string_view key) {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return NotFound("{}: no object \"{}\"", uri_, key);
    return found->second;
  }

  const Clock& clock_;
  const std::string uri_ = "memory:";
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> objects_;  // guarded by mutex_
  uint64_t puts_ = 0;                                  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore(const Clock& clock) {
  return std::make_unique<MemoryStore>(clock);
}

}  // namespace pulse
