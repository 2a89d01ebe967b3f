#include "inference_bridge/follow_test_world.h"

namespace pulse {

TestPublisher::TestPublisher(Store& store, Clock& clock, uint32_t nonces,
                             std::shared_ptr<const SigningKey> key)
    : clock_(clock), fs_(clock), nonces_(nonces), kernels_(*kernels::ChooseKernels("auto")) {
  const ModelSchema schema = testing::SchemaOf({{"bias", DType::kF32, {3}},
                                                {"embed", DType::kBF16, {25, 20}},
                                                {"empty", DType::kBF16, {0, 4}},
                                                {"layer.0", DType::kBF16, {200, 150}},
                                                {"norm", DType::kF32, {30}},
                                                {"step", DType::kI64, {}},
                                                {"table", DType::kU8, {77}}},
                                               {{"head", "embed"}});
  model_ = testing::RandomModel(schema, nonces);
  PublisherOptions options;
  options.signing_key = std::move(key);
  options.anchor_share = 1e9;  // anchors come only when asked for
  publisher_ = *Publisher::Open(options, {store, fs_, clock_, nonces_, kernels_, *log_});
}

void TestPublisher::Publish(bool anchor, std::map<std::string, std::string> metadata) {
  model_ = testing::Mutated(model_, newest(), 200);
  PublishOptions options;
  options.anchor = anchor;
  options.metadata = std::move(metadata);
  const ModelView view = model_.view();
  const auto published = publisher_->Publish(view, options);
  ASSERT_TRUE(published.ok()) << published.status();
  const uint64_t number = published->ref.id.number;
  digests_[number] = ViewDigest(view);
  for (const Bytes& tensor : model_.tensors) {
    history_[number].insert(history_[number].end(), tensor.begin(), tensor.end());
  }
  ids_[number] = published->ref.id;
  manifests_[number] = published->manifest;
}

std::string TestPublisher::Key(uint64_t number, PayloadRole role) const {
  return ObjectKey("main", id(number), ManifestObject{.role = role, .sha256 = ""}.Name());
}

FollowerOptions TestMachine::Options(const std::string& output) const {
  FollowerOptions options;
  options.output = output;
  options.parallel_fetches = 1;
  options.threads = 1;
  return options;
}

StatusOr<std::unique_ptr<Follower>> TestMachine::Open(Store& store, FollowerOptions options) {
  return Open(store, fs, std::move(options));
}

StatusOr<std::unique_ptr<Follower>> TestMachine::Open(Store& store, Filesystem& through,
                                                      FollowerOptions options) {
  return Follower::Open(std::move(options), {store, through, clock, kernels, *log});
}

uint64_t VersionAt(Filesystem& fs, const std::string& path, const TestPublisher& publisher) {
  const auto checkpoint = Checkpoint::Open(fs, path);
  if (absl::IsNotFound(checkpoint.status())) return 0;
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  if (!checkpoint.ok()) return 0;
  EXPECT_EQ((*checkpoint)->schema(), publisher.schema());
  Bytes bytes;
  for (const ByteView tensor : (*checkpoint)->view().tensors) {
    bytes.insert(bytes.end(), tensor.begin(), tensor.end());
  }
  for (const auto& [number, expected] : publisher.history()) {
    if (bytes == expected) return number;
  }
  ADD_FAILURE() << path << " is no version of the publisher's";
  return 0;
}

std::map<std::string, Bytes> Snapshot(Store& store) {
  std::map<std::string, Bytes> objects;
  const auto all = ListAll(store, "", false);
  for (const ObjectInfo& info : all->objects) {
    objects[info.key] = store.Get(info.key, info.bytes)->bytes;
  }
  return objects;
}

void Restore(Store& store, const std::map<std::string, Bytes>& objects) {
  const auto all = ListAll(store, "", false);
  for (const ObjectInfo& info : all->objects) {
    ASSERT_TRUE(store.Delete(info.key).ok());
  }
  for (const auto& [key, bytes] : objects) PutObject(store, key, bytes);
}

void PutObject(Store& store, const std::string& key, ByteView bytes) {
  ASSERT_TRUE(store.Put(key, MemorySource(bytes), PutCondition::None()).ok());
}

void Forget(Store& store, const TestPublisher& publisher, uint64_t number) {
  const VersionId& id = publisher.id(number);
  ASSERT_TRUE(store.Delete(ManifestKey("main", id)).ok());
  for (const ManifestObject& object : publisher.manifest(number).objects) {
    ASSERT_TRUE(store.Delete(ObjectKey("main", id, object.Name())).ok());
  }
}

std::vector<std::string> NamesIn(Filesystem& fs, const std::string& folder) {
  std::vector<std::string> names;
  const auto entries = fs.List(folder);
  if (!entries.ok()) return names;
  for (const DirectoryEntry& entry : *entries) names.push_back(entry.name);
  return names;
}

}  // namespace pulse
