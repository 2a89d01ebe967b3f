#include "sync/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sync/testing.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;
using testing::RandomModel;
using testing::SchemaOf;
using testing::TestModel;
using testing::TinySchema;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = "/tmp/pulse_checkpoint_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteFileAtomically(*fs_, Path(name), AsBytes(text)).ok());
  }
  void WriteModel(const std::string& name, const TestModel& model) {
    ASSERT_TRUE(WriteCheckpoint(*fs_, Path(name), ModelViewSource(model.view()), {}).ok());
  }
  size_t Files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  }

  std::string folder_;
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
};

TEST_F(CheckpointTest, ReadsWhatItWrites) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const auto digests = WriteCheckpoint(*fs_, Path("m.safetensors"), ModelViewSource(model.view()),
                                       {.metadata = {{"a", "b"}}});
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(digests->view, ViewDigest(model.view()));
  const auto read = Checkpoint::Open(*fs_, Path("m.safetensors"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->schema(), model.schema);
  EXPECT_EQ(ViewDigest((*read)->view()), digests->view);
  EXPECT_EQ((*read)->metadata(), (std::map<std::string, std::string>{{"a", "b"}}));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(CheckpointTest, AWrongDigestLeavesTheOldFileAndNothingElse) {
  const TestModel old = RandomModel(TinySchema(), 1);
  WriteModel("m.safetensors", old);
  const TestModel next = RandomModel(TinySchema(), 2);
  const auto written = WriteCheckpoint(*fs_, Path("m.safetensors"), ModelViewSource(next.view()),
                                       {.expected = ViewDigest(old.view())});
  EXPECT_EQ(written.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ViewDigest((*Checkpoint::Open(*fs_, Path("m.safetensors")))->view()),
            ViewDigest(old.view()));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(CheckpointTest, TheWriterTakesPiecesInFileOrderAndNoMore) {
  const TestModel model = RandomModel(TinySchema(), 3);
  auto writer = CheckpointWriter::Create(*fs_, Path("m.safetensors"), model.schema, {});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->Finish().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE((*writer)->Commit().ok());
  for (const size_t tensor : (*writer)->order()) {
    for (const uint8_t& byte : model.tensors[tensor]) {
      ASSERT_TRUE((*writer)->Append({&byte, 1}).ok());
    }
  }
  EXPECT_EQ((*writer)->Append(Bytes(1)).code(), absl::StatusCode::kInvalidArgument);
  const auto digests = (*writer)->Finish();
  ASSERT_TRUE(digests.ok());
  EXPECT_EQ(digests->view, ViewDigest(model.view()));
  ASSERT_TRUE((*writer)->Commit().ok());
  EXPECT_TRUE(Checkpoint::Open(*fs_, Path("m.safetensors")).ok());
}

TEST_F(CheckpointTest, ReadsAFolderWithAnIndex) {
  const TestModel a = RandomModel(SchemaOf({{"a", DType::kBF16, {7}}, {"c", DType::kU8, {3}}}), 1);
  const TestModel b = RandomModel(SchemaOf({{"b", DType::kF32, {2, 2}}}), 2);
  WriteModel("model-00001-of-00002.safetensors", a);
  WriteModel("model-00002-of-00002.safetensors", b);
  Write("model.safetensors.index.json",
        R"({"metadata":{"total_size":33},"weight_map":{"a":"model-00001-of-00002.safetensors",
            "b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}})");
  const auto read = Checkpoint::Open(*fs_, folder_);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ((*read)->schema().tensors().size(), 3u);
  EXPECT_EQ((*read)->schema().tensors()[1].name, "b");
  EXPECT_TRUE(std::ranges::equal((*read)->view().tensors[1], b.tensors[0]));
  EXPECT_TRUE(std::ranges::equal((*read)->view().tensors[2], a.tensors[1]));
}

TEST_F(CheckpointTest, ReadsAFolderWithASingleFile) {
  WriteModel("model.safetensors", RandomModel(TinySchema(), 1));
  EXPECT_TRUE(Checkpoint::Open(*fs_, folder_).ok());
}

TEST_F(CheckpointTest, RefusesAHostileOrWrongIndex) {
  WriteModel("one.safetensors",
             RandomModel(SchemaOf({{"a", DType::kU8, {3}}, {"b", DType::kU8, {1}}}), 1));
  WriteModel("two.safetensors", RandomModel(SchemaOf({{"a", DType::kU8, {3}}}), 1));
  for (const char* index :
       {R"({"weight_map":{"a":"../one.safetensors"}})",
        R"({"weight_map":{"a":"/etc/one.safetensors"}})",
        R"({"weight_map":{"a":"..\\one.safetensors"}})",
        R"({"weight_map":{"a":"one\u0000.safetensors"}})",
        R"({"weight_map":{"a":".one.safetensors"}})", R"({"weight_map":{"a":"one.bin"}})",
        R"({"weight_map":{"a":""}})", R"({"weight_map":{"a":7}})", R"({"weight_map":[]})", R"({})",
        "[]", "x", R"({"weight_map":{"a":"one.safetensors","a":"one.safetensors"}})",
        R"({"weight_map":{"a":"one.safetensors"}})",
        R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"one.safetensors"}})",
        R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})",
        R"({"weight_map":{"a":"missing.safetensors"}})"}) {
    Write("model.safetensors.index.json", index);
    EXPECT_EQ(Checkpoint::Open(*fs_, folder_).status().code(), absl::StatusCode::kDataLoss)
        << index;
  }
}

TEST_F(CheckpointTest, NamesTheFileThatIsMissingOrBroken) {
  EXPECT_EQ(Checkpoint::Open(*fs_, Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Checkpoint::Open(*fs_, folder_).status().code(), absl::StatusCode::kNotFound);
  for (const std::string& text : {std::string(), std::string("abc"), std::string(64, '\0')}) {
    Write("bad.safetensors", text);
    const auto read = Checkpoint::Open(*fs_, Path("bad.safetensors"));
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(read.status().ToString(), HasSubstr("bad.safetensors"));
  }
}

TEST_F(CheckpointTest, RefusesABadAliasTable) {
  const TestModel model = RandomModel(SchemaOf({{"a", DType::kU8, {1}}}), 1);
  EXPECT_FALSE(WriteCheckpoint(*fs_, Path("m"), ModelViewSource(model.view()),
                               {.metadata = {{kAliasesKey, "{}"}}})
                   .ok());
  for (const char* table : {"[]", "{\"b\":\"none\"}", "{\"b\":1}", "{\"a\":\"a\"}", "{"}) {
    const auto header = WriteSafetensorsHeader(model.schema.tensors(), {{kAliasesKey, table}});
    Write("m.safetensors", std::string(AsText(*header)) + "x");
    EXPECT_EQ(Checkpoint::Open(*fs_, Path("m.safetensors")).status().code(),
              absl::StatusCode::kDataLoss)
        << table;
  }
}

// A tensor of more than 2^31 elements, without gigabytes: a file with a hole.
TEST_F(CheckpointTest, MapsATensorBeyondTwoToThe31Elements) {
  const uint64_t elements = (uint64_t{1} << 31) + 5;
  const ModelSchema schema = SchemaOf({{"huge", DType::kBF16, {elements}}});
  const auto header = WriteSafetensorsHeader(schema.tensors(), {});
  Write("huge.safetensors", AsText(*header));
  std::filesystem::resize_file(Path("huge.safetensors"), header->size() + schema.bytes());
  const auto read = Checkpoint::Open(*fs_, Path("huge.safetensors"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->view().tensors[0].size(), 2 * elements);
  EXPECT_EQ((*read)->view().tensors[0].back(), 0);
}

}  // namespace
}  // namespace pulse
