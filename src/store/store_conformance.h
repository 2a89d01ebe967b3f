// One suite for every store: what store.h promises, tried on whatever backend a test program names.
//
// A backend's test program compiles store_conformance.cc in and says
//   INSTANTIATE_TEST_SUITE_P(S3, StoreConformance, testing::Values(StoreBackendParam{...}),
//   NameOfBackend);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "store/store.h"

namespace pulse {

// A bucket, empty at first, and the ways into it.
class StoreBackend {
 public:
  virtual ~StoreBackend() = default;
  virtual Store& store() = 0;
  // Puts the objects that store() is to show. Another one where store() is read-only.
  virtual Store& filler() { return store(); }
  // A further store on the same bucket, as another process would open it; null if there is no such
  // thing: then all threads share store().
  virtual std::unique_ptr<Store> OpenAnother() { return nullptr; }
};

// What a backend can do at all. What it can't, it must refuse: kPermissionDenied for writes,
// kUnimplemented for conditions and lists.
struct StoreCapabilities {
  bool writes = true;
  // Readers of an object that is being replaced see the old or the new one. A server that breaks
  // this promise of store.h can't be told from one that keeps it; heads have a checksum for it.
  bool whole_replacements = true;
  bool conditions = true;
  bool lists = true;
};

struct StoreBackendParam {
  std::string name;
  StoreCapabilities can;
  std::function<std::unique_ptr<StoreBackend>()> make;
  int increments_per_thread = 25;  // of the counter race, eight threads
};

inline std::ostream& operator<<(std::ostream& out, const StoreBackendParam& param) {
  return out << param.name;
}
inline std::string NameOfBackend(const testing::TestParamInfo<StoreBackendParam>& info) {
  return info.param.name;
}

class StoreConformance : public testing::TestWithParam<StoreBackendParam> {
 protected:
  void SetUp() override;

  Store& store() { return backend_->store(); }
  const StoreCapabilities& can() const { return GetParam().can; }
  // Through the filler; fails the test if that can't be done.
  ObjectInfo Fill(const std::string& key, ByteView bytes);
  ObjectInfo Fill(const std::string& key, std::string_view text) {
    return Fill(key, AsBytes(text));
  }
  // The contents, or the status as text.
  std::string TextOf(const std::string& key);
  StatusOr<ObjectInfo> Put(const std::string& key, std::string_view text,
                           const PutCondition& condition = PutCondition::None());
  // The stores of `count` threads: of their own where the backend can.
  void WithStores(int count, const std::function<void(Store&, int thread)>& work);
  // Keys and prefixes in order, separated by spaces; all pages of `limit` each.
  std::string Listing(std::string_view prefix, bool delimited, size_t limit = 1000);

  std::unique_ptr<StoreBackend> backend_;
};

}  // namespace pulse
