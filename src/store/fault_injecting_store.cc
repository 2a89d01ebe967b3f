#include "store/fault_injecting_store.h"

namespace pulse {
namespace {

class FaultInjectingStore final : public Store {
 public:
  FaultInjectingStore(Store& base, FaultInjector& injector) : base_(base), injector_(injector) {}

  const std::string& uri() const override { return base_.uri(); }

  StatusOr<bool> HonoursConditions() override {
    return injector_.Run("store.HonoursConditions", "", [&] { return base_.HonoursConditions(); });
  }
  StatusOr<ObjectInfo> Stat(std::string_view key) override {
    return injector_.Run("store.Stat", key, [&] { return base_.Stat(key); });
  }
  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    return injector_.Run("store.Get", key, [&] { return base_.Get(key, max_bytes); });
  }
  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    return injector_.Run("store.ReadAt", key, [&] { return base_.ReadAt(key, offset, out); });
  }
  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    return injector_.Run("store.Put", key, [&] { return base_.Put(key, source, condition); });
  }
  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    return injector_.Run("store.List", prefix,
                         [&] { return base_.List(prefix, after, limit, delimited); });
  }
  Status Delete(std::string_view key) override {
    return injector_.Run("store.Delete", key, [&] { return base_.Delete(key); });
  }

 private:
  Store& base_;
  FaultInjector& injector_;
};

}  // namespace

std::unique_ptr<Store> MakeFaultInjectingStore(Store& base, FaultInjector& injector) {
  return std::make_unique<FaultInjectingStore>(base, injector);
}

}  // namespace pulse
