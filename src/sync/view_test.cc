#include "sync/view.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "sync/master_view.h"
#include "sync/testing.h"

namespace pulse {
namespace {

using testing::RandomModel;
using testing::SchemaOf;
using testing::TinySchema;

TEST(View, CellsCoverEveryTensorInOrder) {
  const uint64_t big = 2 * kCellBytes + 5;
  const ModelSchema schema =
      SchemaOf({{"a", DType::kU8, {big}}, {"b", DType::kU8, {0}}, {"c", DType::kU8, {kCellBytes}}});
  const std::vector<TensorRange> cells = AllCells(schema);
  const std::vector<TensorRange> expected = {{0, 0, kCellBytes},
                                             {0, kCellBytes, 2 * kCellBytes},
                                             {0, 2 * kCellBytes, big},
                                             {1, 0, 0},
                                             {2, 0, kCellBytes}};
  EXPECT_EQ(cells, expected);
  EXPECT_TRUE(CheckRanges(schema, cells).ok());
}

TEST(View, RangesThatNoRankMayOwnAreRefused) {
  const uint64_t mib = kDigestChunkBytes;
  const ModelSchema schema =
      SchemaOf({{"a", DType::kU8, {kCellBytes + 3 * mib + 7}}, {"z", DType::kU8, {0}}});
  const uint64_t end = kCellBytes + 3 * mib + 7;
  EXPECT_TRUE(CheckRanges(schema, {{0, mib, 3 * mib}, {0, kCellBytes + 2 * mib, end}}).ok());
  const std::vector<std::vector<TensorRange>> bad = {
      {{2, 0, mib}},                              // no such tensor
      {{0, 1, mib}},                              // begins inside a chunk
      {{0, 0, mib + 1}},                          // ends inside a chunk
      {{0, kCellBytes - mib, kCellBytes + mib}},  // crosses a cut
      {{0, 2 * mib, mib}},                        // backwards
      {{0, mib, mib}},                            // empty
      {{0, kCellBytes + 3 * mib, end + 1}},       // beyond the tensor
      {{0, 0, 2 * mib}, {0, mib, 3 * mib}},       // overlap
      {{0, 2 * mib, 3 * mib}, {0, 0, mib}},       // out of order
      {{1, 0, 0}, {1, 0, 0}},                     // twice the same
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(CheckRanges(schema, bad[i]).code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

TEST(View, SharesCoverTheModelOnceAndAreNearlyEven) {
  const uint64_t mib = kDigestChunkBytes;
  const ModelSchema schema = testing::SchemaOf({{"a", DType::kU8, {2 * kCellBytes + 5}},
                                                {"b", DType::kU8, {0}},
                                                {"c", DType::kU8, {9}},
                                                {"d", DType::kBF16, {3 * mib}}});
  for (const size_t ranks : {1, 2, 3, 7, 16, 500}) {
    const auto shares = ShareRanges(schema, ranks);
    EXPECT_LE(shares.size(), ranks);
    EXPECT_GE(shares.size(), std::min<size_t>(ranks, 38))
        << "one chunk or tensor end each at least";
    std::vector<TensorRange> all;
    for (const auto& share : shares) {
      ASSERT_FALSE(share.empty());
      EXPECT_TRUE(CheckRanges(schema, share).ok());
      uint64_t bytes = 0;
      for (const TensorRange& range : share) bytes += range.bytes();
      EXPECT_LE(bytes, schema.bytes() / ranks + 2 * mib);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_TRUE(CheckRanges(schema, all).ok());
    EXPECT_EQ(MergeAdjacent(all), MergeAdjacent(AllCells(schema)));
  }
}

TEST(View, DigestsAreThoseOfTheCore) {
  const auto model = RandomModel(TinySchema(), 1);
  const auto digests = ComputeDigests(ModelViewSource(model.view()));
  ASSERT_TRUE(digests.ok());
  EXPECT_EQ(digests->view, ViewDigest(model.view()));
  EXPECT_EQ(digests->tensors[0], TensorDigest(model.tensors[0]));
}

TEST(MasterView, OfAShardReadsThatAlone) {
  const auto kernels = *kernels::ChooseKernels("reference");
  const ModelSchema schema = SchemaOf({{"b", DType::kBF16, {10}}, {"f", DType::kF32, {6}}});
  const std::vector<float> shard = {1, 2, 3, 4};  // elements 8 to 12
  const auto view = MasterView::OfShard(kernels, schema, shard, 8);
  ASSERT_TRUE(view.ok());
  Bytes scratch;
  EXPECT_EQ(view->Read({0, 16, 20}, scratch)->size(), 4u);
  EXPECT_EQ(LoadLittle<uint16_t>(scratch.data() + 2), 0x4000) << "2 as BF16";
  EXPECT_EQ(view->Read({1, 0, 8}, scratch)->size(), 8u);
  EXPECT_FALSE(view->Read({0, 0, 20}, scratch).ok());
  EXPECT_FALSE(view->Read({1, 0, 24}, scratch).ok());
}

TEST(MasterView, CastsToTheDtypeOfEachTensor) {
  const auto kernels = *kernels::ChooseKernels("reference");
  const ModelSchema schema =
      SchemaOf({{"b", DType::kBF16, {kCellBytes / 2 + 3}}, {"f", DType::kF32, {5}}});
  std::vector<float> weights(schema.elements());
  Rng rng(3, {});
  for (float& weight : weights) weight = std::bit_cast<float>(rng.U32());
  const auto view = MasterView::Make(kernels, schema, weights);
  ASSERT_TRUE(view.ok());
  std::vector<uint16_t> expected(kCellBytes / 2 + 3);
  kernels.cast_to_bf16(std::span(weights).first(expected.size()), expected);
  Bytes scratch;
  Bytes whole;
  for (const TensorRange& cell : AllCells(schema)) {
    const auto bytes = view->Read(cell, scratch);
    ASSERT_TRUE(bytes.ok());
    if (cell.tensor == 0) whole.insert(whole.end(), bytes->begin(), bytes->end());
    if (cell.tensor == 1) {
      EXPECT_EQ(std::memcmp(bytes->data(), weights.data() + expected.size(), 20), 0);
    }
  }
  ASSERT_EQ(whole.size(), 2 * expected.size());
  EXPECT_EQ(std::memcmp(whole.data(), expected.data(), whole.size()), 0);
}

TEST(MasterView, RefusesOtherDtypesAndWrongSizes) {
  const auto kernels = *kernels::ChooseKernels("reference");
  const std::vector<float> weights(4);
  EXPECT_EQ(MasterView::Make(kernels, SchemaOf({{"h", DType::kF16, {4}}}), weights).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(MasterView::Make(kernels, SchemaOf({{"h", DType::kF32, {5}}}), weights).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pulse
