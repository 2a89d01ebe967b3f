// For tests: a bucket with a publisher whose weights drift, and a machine to follow it from.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference_bridge/follower.h"
#include "store/memory_store.h"
#include "store/unsynced_filesystem.h"
#include "sync/publisher.h"
#include "sync/testing.h"

namespace pulse {

// Publishes to `store` versions of a small model of several dtypes, with a scalar, an empty tensor
// and a tied name; about one element in fifty changes each time, or as many as are asked for.
class TestPublisher {
 public:
  // nonces: two publishers of one bucket take different ones.
  TestPublisher(Store& store, Clock& clock, uint32_t nonces = 1,
                std::shared_ptr<const SigningKey> key = nullptr);

  void Publish(bool anchor = false, std::map<std::string, std::string> metadata = {});
  uint64_t newest() const { return digests_.empty() ? 0 : digests_.rbegin()->first; }
  const Digest& digest(uint64_t number) const { return digests_.at(number); }
  // All bytes of each version, tensors in schema order.
  const std::map<uint64_t, Bytes>& history() const { return history_; }
  const VersionId& id(uint64_t number) const { return ids_.at(number); }
  const Manifest& manifest(uint64_t number) const { return manifests_.at(number); }
  const ModelSchema& schema() const { return model_.schema; }
  // The key of the only object of a role.
  std::string Key(uint64_t number, PayloadRole role) const;

 private:
  Clock& clock_;
  UnsyncedFilesystem fs_;
  testing::CountingNonces nonces_;
  kernels::KernelTable kernels_;
  std::shared_ptr<Logger> log_ = NullLogger();
  std::unique_ptr<Publisher> publisher_;
  testing::TestModel model_;
  std::map<uint64_t, Digest> digests_;
  std::map<uint64_t, Bytes> history_;
  std::map<uint64_t, VersionId> ids_;
  std::map<uint64_t, Manifest> manifests_;
};

// A machine with followers. Single-threaded, so that operations come in a fixed order.
struct TestMachine {
  explicit TestMachine(Clock& clock_to_use) : clock(clock_to_use), fs(clock_to_use) {}

  FollowerOptions Options(const std::string& output = "/host/current.safetensors") const;
  StatusOr<std::unique_ptr<Follower>> Open(Store& store, FollowerOptions options);
  StatusOr<std::unique_ptr<Follower>> Open(Store& store) { return Open(store, Options()); }
  // Through a decorated file system.
  StatusOr<std::unique_ptr<Follower>> Open(Store& store, Filesystem& through,
                                           FollowerOptions options);

  Clock& clock;
  UnsyncedFilesystem fs;
  kernels::KernelTable kernels = *kernels::ChooseKernels("auto");
  std::shared_ptr<Logger> log = NullLogger();
};

// Which of the publisher's versions lies at `path`, whole and bit for bit; 0: there is no file;
// anything else fails the test.
uint64_t VersionAt(Filesystem& fs, const std::string& path, const TestPublisher& publisher);

// All objects of a store, and the way back.
std::map<std::string, Bytes> Snapshot(Store& store);
void Restore(Store& store, const std::map<std::string, Bytes>& objects);
void PutObject(Store& store, const std::string& key, ByteView bytes);

// Removes a version as retention does.
void Forget(Store& store, const TestPublisher& publisher, uint64_t number);

// Names in a folder.
std::vector<std::string> NamesIn(Filesystem& fs, const std::string& folder);

}  // namespace pulse
