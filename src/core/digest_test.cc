#include "core/digest.h"

#include <gtest/gtest.h>

#include "core/sha256.h"

namespace pulse {
namespace {

Bytes Pattern(size_t n) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  return bytes;
}

TEST(Digest, OfNothingIsTheOneXxhashPublishes) {
  EXPECT_EQ(DigestOf({}).Hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, HexRoundTripsAndRefusesAnythingElse) {
  const Digest digest = DigestOf(AsBytes(std::string_view("weights")));
  EXPECT_EQ(*Digest::FromHex(digest.Hex()), digest);
  EXPECT_FALSE(Digest::FromHex("99AA06d3014798d86001c324468d497f").ok());
  EXPECT_FALSE(Digest::FromHex("99").ok());
}

TEST(TensorDigest, DoesNotDependOnHowTheBytesArrive) {
  const Bytes bytes = Pattern(2 * kDigestChunkBytes + 12345);
  const Digest whole = TensorDigest(bytes);
  for (const size_t piece : {size_t{1000}, kDigestChunkBytes - 1, kDigestChunkBytes + 1}) {
    TensorDigester digester;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      digester.Update(ByteView(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(digester.Finish(), whole) << piece;
  }
}

TEST(TensorDigest, IsTheTreeOverChunksThatTheFormatDescribes) {
  const Bytes bytes = Pattern(kDigestChunkBytes + 7);
  const ByteView view(bytes);
  const std::vector<Digest> chunks = {DigestOf(view.first(kDigestChunkBytes)),
                                      DigestOf(view.subspan(kDigestChunkBytes))};
  EXPECT_EQ(TensorDigest(bytes), CombineChunks(chunks));
  EXPECT_EQ(TensorDigest({}), DigestOf({}));
}

TEST(TensorDigest, IsTheSameForAnyNumberOfThreads) {
  for (const size_t n : {size_t{0}, size_t{1}, kDigestChunkBytes - 1, kDigestChunkBytes,
                         kDigestChunkBytes + 1, 5 * kDigestChunkBytes + 12345}) {
    const Bytes bytes = Pattern(n);
    for (const size_t threads : {1, 2, 3, 9}) {
      Workers workers(threads);
      EXPECT_EQ(CombineChunks(ChunkDigests(bytes, workers)), TensorDigest(bytes))
          << n << " " << threads;
    }
  }
}

TEST(ViewDigest, ChangesWithNameShapeDtypeAliasAndEveryBit) {
  const auto digest = [](TensorSpec spec, Bytes bytes,
                         std::map<std::string, std::string> aliases = {}) {
    const ModelSchema schema = *ModelSchema::Make({std::move(spec)}, std::move(aliases));
    return ViewDigest(SplitContiguous(schema, bytes)).Hex();
  };
  const Bytes zeros(8);
  const std::string base = digest({"w", DType::kBF16, {2, 2}}, zeros);
  EXPECT_EQ(base, digest({"w", DType::kBF16, {2, 2}}, zeros));
  EXPECT_NE(base, digest({"v", DType::kBF16, {2, 2}}, zeros));
  EXPECT_NE(base, digest({"w", DType::kBF16, {4}}, zeros));
  EXPECT_NE(base, digest({"w", DType::kF16, {2, 2}}, zeros));
  EXPECT_NE(base, digest({"w", DType::kBF16, {2, 2}}, zeros, {{"tied", "w"}}));
  for (size_t bit = 0; bit < 64; ++bit) {
    Bytes flipped = zeros;
    flipped[bit / 8] = static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_NE(base, digest({"w", DType::kBF16, {2, 2}}, flipped));
  }
}

TEST(Sha256, OfAbcIsTheStandardsExample) {
  EXPECT_EQ(Sha256Hex(AsBytes(std::string_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ViewDigestOfChunks, IsTheViewsWhoeverHashedThem) {
  const auto schema = ModelSchema::Make({{"a", DType::kU8, {2 * kDigestChunkBytes + 5}},
                                         {"b", DType::kU8, {0}},
                                         {"c", DType::kF32, {9}}});
  ASSERT_TRUE(schema.ok());
  Bytes bytes(schema->bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 >> 3);
  const ModelView view = SplitContiguous(*schema, bytes);
  Workers workers(2);
  std::vector<Digest> chunks;
  for (const ByteView tensor : view.tensors) {
    const auto of_tensor = ChunkDigests(tensor, workers);
    chunks.insert(chunks.end(), of_tensor.begin(), of_tensor.end());
  }
  EXPECT_EQ(chunks.size(), 4u);
  EXPECT_EQ(*ViewDigestOfChunks(*schema, chunks), ViewDigest(view));
  chunks.push_back(chunks.back());
  EXPECT_TRUE(absl::IsDataLoss(ViewDigestOfChunks(*schema, chunks).status()));
}

}  // namespace
}  // namespace pulse
