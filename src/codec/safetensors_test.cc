#include "codec/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/rng.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StatusOr<SafetensorsHeader> Parse(std::string_view json, uint64_t data_bytes) {
  return ParseSafetensorsHeader(AsBytes(json), kSafetensorsPrefixBytes + json.size() + data_bytes);
}

TEST(Safetensors, ReadsAHeaderInAnyOrderWithSpacesBehind) {
  const auto header = Parse(
      R"({"b":{"data_offsets":[6,10],"dtype":"F32","shape":[]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]}}   )",
      10);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->entries.size(), 2u);
  EXPECT_EQ(header->entries[0].spec.name, "a");
  EXPECT_THAT(header->entries[0].spec.shape, ElementsAre(3, 1));
  EXPECT_EQ(header->entries[1].spec.dtype, DType::kF32);
  EXPECT_EQ(header->entries[1].begin, 6u);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->data_bytes, 10u);
}

TEST(Safetensors, ReadsEmptyTensorsAndAFileWithoutTensors) {
  EXPECT_TRUE(Parse("{}", 0).ok());
  const auto header = Parse(R"({"z":{"dtype":"U8","shape":[0,7],"data_offsets":[2,2]},)"
                            R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                            R"("e":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}})",
                            2);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries[0].spec.name, "e");
  EXPECT_EQ(header->entries[2].spec.name, "z");
}

struct Bad {
  const char* what;
  const char* json;
  uint64_t data_bytes;
};

TEST(Safetensors, RefusesWhatTheFormatDoesNotAllow) {
  const Bad cases[] = {
      {"no object", "[]", 0},
      {"leading space", " {}", 0},
      {"empty", "", 0},
      {"text behind", "{}x", 0},
      {"two objects", "{}{}", 0},
      {"comment", "{/*x*/}", 0},
      {"trailing comma", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})", 1},
      {"nul byte behind", "{\"a\":1", 0},
      {"repeated tensor",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2},
      {"repeated field", R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1},
      {"repeated shape", R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1},
      {"repeated metadata", R"({"__metadata__":{},"__metadata__":{}})", 0},
      {"repeated metadata key", R"({"__metadata__":{"a":"1","a":"1"}})", 0},
      {"metadata not text", R"({"__metadata__":{"a":1}})", 0},
      {"metadata nested", R"({"__metadata__":{"a":{"b":"c"}}})", 0},
      {"metadata as text", R"({"__metadata__":"a"})", 0},
      {"unknown field", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":"x"}})", 1},
      {"unknown list", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":[1]}})", 1},
      {"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1},
      {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1},
      {"no offsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1},
      {"hole at the start", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2},
      {"hole between",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3},
      {"offsets backwards", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,-0]}})", 0},
      {"end before begin",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,1]}})",
       2},
      {"one offset", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", 0},
      {"three offsets", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0},
      {"shape too small", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8},
      {"negative extent", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1},
      {"fraction", R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1},
      {"exponent", R"({"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}})", 1},
      {"extent beyond 64 bits",
       R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}})", 1},
      {"product overflows to the size",
       R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0},
      {"overflow in an empty tensor",
       R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0},
      {"nested shape", R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1},
      {"shape of text", R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1},
      {"shape is a number", R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1},
      {"null tensor", R"({"a":null})", 0},
      {"file too long", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2},
      {"file too short", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 0},
      {"not UTF-8", "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
      {"lone surrogate", R"({"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1},
  };
  for (const Bad& bad : cases) {
    EXPECT_EQ(Parse(bad.json, bad.data_bytes).status().code(), absl::StatusCode::kDataLoss)
        << bad.what;
  }
}

TEST(Safetensors, NamesAnElementTypeThatIsNotCarried) {
  const auto header = Parse(R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(header.status().ToString(), HasSubstr("\"w\""));
}

TEST(Safetensors, SurvivesNestingBombsAndEndlessShapes) {
  EXPECT_FALSE(Parse("{\"a\":" + std::string(1'000'000, '['), 0).ok());
  std::string deep = "{";
  for (int i = 0; i < 200'000; ++i) deep += "\"a\":{";
  EXPECT_FALSE(Parse(deep, 0).ok());
  std::string shape = "{\"a\":{\"shape\":[1";
  for (int i = 0; i < 1'000'000; ++i) shape += ",1";
  EXPECT_FALSE(Parse(shape + "]}}", 0).ok());
}

TEST(Safetensors, ChecksThePrefixAgainstTheFile) {
  Bytes prefix;
  AppendLittle(uint64_t{100}, prefix);
  EXPECT_EQ(*SafetensorsHeaderBytes(prefix, 108), 100u);
  EXPECT_EQ(SafetensorsHeaderBytes(prefix, 107).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(SafetensorsHeaderBytes(ByteView(prefix).first(7), 7).ok());
  Bytes huge;
  AppendLittle(kMaxSafetensorsHeaderBytes + 1, huge);
  EXPECT_FALSE(SafetensorsHeaderBytes(huge, uint64_t{1} << 40).ok());
  Bytes wraps;
  AppendLittle(~uint64_t{0}, wraps);
  EXPECT_FALSE(SafetensorsHeaderBytes(wraps, 100).ok());
}

TEST(Safetensors, WritesTheOneSpellingAndReadsItBack) {
  const std::vector<TensorSpec> specs = {
      {"h\"\n\xc3\xa9", DType::kBF16, {2, 3}}, {"e", DType::kI64, {0}}, {"s", DType::kF32, {}}};
  const std::vector<size_t> order = SafetensorsOrder(specs);
  EXPECT_THAT(order, ElementsAre(1, 2, 0));
  std::vector<TensorSpec> in_order;
  for (const size_t i : order) in_order.push_back(specs[i]);
  const auto written = WriteSafetensorsHeader(in_order, {{"b", "2"}, {"a", "1"}});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->size() % 8, 0u);
  const std::string text(AsText(ByteView(*written).subspan(8)));
  EXPECT_THAT(
      text,
      HasSubstr(R"({"__metadata__":{"a":"1","b":"2"},"e":{"dtype":"I64","shape":[0],)"
                R"("data_offsets":[0,0]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                R"("h\"\n)"));
  ASSERT_EQ(*SafetensorsHeaderBytes(*written, written->size() + 16), written->size() - 8);
  const auto read = ParseSafetensorsHeader(ByteView(*written).subspan(8), written->size() + 16);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->entries.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(read->entries[i].spec, in_order[i]);
}

TEST(Safetensors, WriterRefusesNamesThatNoReaderTakes) {
  const std::vector<TensorSpec> twice = {{"a", DType::kU8, {}}, {"a", DType::kU8, {}}};
  EXPECT_EQ(WriteSafetensorsHeader(twice, {}).status().code(), absl::StatusCode::kInvalidArgument);
  const std::vector<TensorSpec> metadata = {{"__metadata__", DType::kU8, {}}};
  EXPECT_FALSE(WriteSafetensorsHeader(metadata, {}).ok());
  const std::vector<TensorSpec> bytes = {{"\xff", DType::kU8, {}}};
  EXPECT_FALSE(WriteSafetensorsHeader(bytes, {}).ok());
  EXPECT_FALSE(WriteSafetensorsHeader({}, {{"k", "\xc3"}}).ok());
}

// Whatever a flipped bit does, the header is refused or describes a file of exactly this size.
TEST(Safetensors, EveryFlippedBitIsRefusedOrStaysConsistent) {
  const std::vector<TensorSpec> specs = {{"w", DType::kBF16, {2, 3}}, {"u", DType::kU8, {5}}};
  const auto written = WriteSafetensorsHeader(specs, {{"k", "v"}});
  ASSERT_TRUE(written.ok());
  const uint64_t file_bytes = written->size() + 17;
  for (size_t bit = 64; bit < written->size() * 8; ++bit) {
    Bytes bad = *written;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ (1u << (bit % 8)));
    const auto read = ParseSafetensorsHeader(ByteView(bad).subspan(8), file_bytes);
    if (!read.ok()) continue;
    uint64_t total = 0;
    for (const SafetensorsEntry& entry : read->entries) total += entry.spec.bytes();
    EXPECT_EQ(total, 17u) << "bit " << bit;
  }
}

}  // namespace
}  // namespace pulse
