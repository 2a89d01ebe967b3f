// A store that passes everything on to another: the base of decorators, which override what they
// change.
#pragma once

#include "store/store.h"

namespace pulse {

// `inner` must outlive it. As thread-safe as `inner`.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store& inner) : inner_(inner) {}

  const std::string& uri() const override { return inner_.uri(); }
  StatusOr<bool> HonoursConditions() override { return inner_.HonoursConditions(); }
  StatusOr<ObjectInfo> Stat(std::string_view key) override { return inner_.Stat(key); }
  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    return inner_.Get(key, max_bytes);
  }
  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    return inner_.ReadAt(key, offset, out);
  }
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    return inner_.Put(key, source, condition);
  }
  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    return inner_.List(prefix, after, limit, delimited);
  }
  Status Delete(std::string_view key) override { return inner_.Delete(key); }

 protected:
  Store& inner_;
};

}  // namespace pulse
