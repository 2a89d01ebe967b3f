#include "core/shards.h"

#include <gtest/gtest.h>

#include "core/digest.h"

namespace pulse {
namespace {

ModelSchema SchemaOf(std::vector<TensorSpec> tensors) {
  auto schema = ModelSchema::Make(std::move(tensors));
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

// A chunk is 2^19 BF16 elements and 2^18 of FP32.
ModelSchema Mixed() {
  return SchemaOf({{"a", DType::kBF16, {3'000'001}},
                   {"b", DType::kF32, {700'000}},
                   {"c", DType::kF32, {0}},
                   {"d", DType::kBF16, {7}},
                   {"e", DType::kBF16, {1'600'000}}});
}

// Whether a chunk of the view begins there.
bool BeginsAChunk(const ModelSchema& schema, uint64_t at) {
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    if (at < schema.offset(i) || at >= schema.offset(i + 1)) continue;
    return (at - schema.offset(i)) * SizeOf(schema.tensors()[i].dtype) % kDigestChunkBytes == 0;
  }
  return at == schema.elements();
}

TEST(CutIntoShards, BeginWhereChunksDoAndLeaveNoGaps) {
  const ModelSchema schema = Mixed();
  for (uint32_t shards = 1; shards < 20; ++shards) {
    SCOPED_TRACE(shards);
    const auto ranges = CutIntoShards(schema, shards);
    ASSERT_EQ(ranges.size(), shards);
    uint64_t at = 0;
    for (const ElementRange& range : ranges) {
      EXPECT_EQ(range.begin, at);
      EXPECT_TRUE(BeginsAChunk(schema, at)) << at;
      EXPECT_LE(range.length(), schema.elements() / shards + 1 + (uint64_t{1} << 19));
      at = range.end;
    }
    EXPECT_EQ(at, schema.elements());
  }
}

TEST(CutIntoShards, AreEvenWhereThereAreManyChunks) {
  const ModelSchema schema = SchemaOf({{"w", DType::kBF16, {1u << 20, 1u << 10}}});
  for (const ElementRange& range : CutIntoShards(schema, 8)) {
    EXPECT_EQ(range.length(), uint64_t{1} << 27);
  }
}

TEST(CutIntoShards, OnlyTheLastAreEmpty) {
  const ModelSchema schema = SchemaOf({{"w", DType::kBF16, {600'000}}});
  const std::vector<ElementRange> expected = {
      {0, 524'288}, {524'288, 600'000}, {600'000, 600'000}, {600'000, 600'000}};
  EXPECT_EQ(CutIntoShards(schema, 4), expected);
  for (const ElementRange& range : CutIntoShards(ModelSchema(), 3)) EXPECT_EQ(range.length(), 0);
}

TEST(CutIntoShards, OfMoreThan32BitsOfElements) {
  const ModelSchema schema = SchemaOf({{"w", DType::kBF16, {uint64_t{1} << 60}}});
  const auto ranges = CutIntoShards(schema, 3);
  EXPECT_EQ(ranges[2].end, uint64_t{1} << 60);
  EXPECT_LE(ranges[0].length() - ranges[2].length(), uint64_t{2} << 19);
}

}  // namespace
}  // namespace pulse
