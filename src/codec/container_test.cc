#include "codec/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr ContainerHeader kHeader{
    .codec = CodecId::kWordDeltaFast, .word_bytes = 2, .elements = 2 * kContainerBlockElements + 3};

// Three blocks: 5 bytes for 7 entries, nothing, 2 bytes for 3 entries.
Bytes Good() {
  ContainerWriter writer(kHeader);
  writer.bytes().insert(writer.bytes().end(), {10, 11, 12, 13, 14});
  writer.CloseBlock(7);
  writer.CloseBlock(0);
  writer.bytes().insert(writer.bytes().end(), {20, 21});
  writer.CloseBlock(3);
  return writer.Finish();
}

void ExpectRefused(const Bytes& bytes, std::string_view why) {
  const auto view = ContainerView::Parse(bytes);
  ASSERT_FALSE(view.ok()) << why;
  EXPECT_EQ(view.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(view.status().message()), HasSubstr(std::string(why)));
}

// Good() with `count` bytes at `at` replaced by the low bytes of `value`.
Bytes With(size_t at, size_t count, uint64_t value) {
  Bytes bytes = Good();
  std::memcpy(&bytes[at], &value, count);
  return bytes;
}

TEST(Container, HasTheDocumentedLayout) {
  const Bytes expected = {'P', 'L', 'S',  1,  1,  2,  0, 0,  // version, codec, word_bytes, zeros
                          3,   0,   0x20, 0,  0,  0,  0, 0,  // elements 2^21 + 3
                          3,   0,   0,    0,  0,  0,  0, 0,  // blocks
                          7,   0,   0,    0,  5,  0,  0, 0,  // entries, payload bytes
                          0,   0,   0,    0,  0,  0,  0, 0,  //
                          3,   0,   0,    0,  2,  0,  0, 0,  //
                          10,  11,  12,   13, 14, 20, 21};
  EXPECT_EQ(Good(), expected);
}

TEST(Container, GivesBackTheBlocks) {
  const Bytes bytes = Good();
  const ContainerView view = ContainerView::Parse(bytes).value();
  EXPECT_TRUE(view.Expect(kHeader).ok());
  EXPECT_EQ(view.entries(), 10u);
  ASSERT_EQ(view.blocks(), 3u);
  EXPECT_EQ(view.block(0).entries, 7u);
  EXPECT_THAT(view.block(0).payload, ::testing::ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(view.block(1).first, kContainerBlockElements);
  EXPECT_EQ(view.block(1).elements, kContainerBlockElements);
  EXPECT_TRUE(view.block(1).payload.empty());
  EXPECT_EQ(view.block(2).elements, 3u);
  EXPECT_THAT(view.block(2).payload, ::testing::ElementsAre(20, 21));
}

TEST(Container, OfNoElementsIsAHeader) {
  const Bytes bytes = ContainerWriter({.word_bytes = 8, .elements = 0}).Finish();
  EXPECT_EQ(bytes.size(), 24u);
  EXPECT_EQ(ContainerView::Parse(bytes).value().blocks(), 0u);
}

TEST(Container, TheHeadAloneTellsWhereThePayloadsLie) {
  const Bytes bytes = Good();
  const Bytes head(bytes.begin(), bytes.begin() + 48);
  ASSERT_EQ(ContainerHeadBytes(kHeader.elements), head.size());
  EXPECT_EQ(ContainerHead(kHeader, std::vector<uint32_t>{7, 0, 3}, std::vector<uint32_t>{5, 0, 2}),
            head);
  const ContainerView view = ContainerView::ParseHead(head, bytes.size()).value();
  EXPECT_THAT(view.payload_offsets(), ::testing::ElementsAre(48, 53, 53, 55));
  EXPECT_EQ(view.block(2).entries, 3u);
  EXPECT_TRUE(view.block(2).payload.empty());
  EXPECT_FALSE(ContainerView::ParseHead(head, bytes.size() - 1).ok());
  EXPECT_FALSE(ContainerView::ParseHead(head, bytes.size() + 1).ok());
  EXPECT_FALSE(ContainerView::ParseHead(ByteView(head).first(47), bytes.size()).ok());
}

TEST(Container, RefusesEveryTruncationAndExtension) {
  Bytes bytes = Good();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ContainerView::Parse(Bytes(bytes.begin(), bytes.begin() + ptrdiff_t(size))).ok());
  }
  bytes.push_back(0);
  ExpectRefused(bytes, "1 bytes behind the last block");
}

TEST(Container, RefusesABrokenHeader) {
  ExpectRefused({'P', 'L', 'S'}, "3 bytes, but the header alone takes 24");
  ExpectRefused(With(0, 1, 'Q'), "magic");
  ExpectRefused(With(1, 1, 'Q'), "magic");
  ExpectRefused(With(2, 1, 'Q'), "magic");
  ExpectRefused(With(3, 1, 2), "format version 2");
  ExpectRefused(With(4, 1, 0), "unknown codec 0");
  ExpectRefused(With(4, 1, 99), "unknown codec 99");
  ExpectRefused(With(5, 1, 0), "words of 0 bytes");
  ExpectRefused(With(5, 1, 3), "words of 3 bytes");
  ExpectRefused(With(5, 1, 16), "words of 16 bytes");
  ExpectRefused(With(6, 1, 1), "reserved");
  ExpectRefused(With(7, 1, 1), "reserved");
}

TEST(Container, RefusesABlockCountThatDoesNotFitTheElements) {
  ExpectRefused(With(16, 8, 2), "2 blocks, but 2097155 elements make 3");
  ExpectRefused(With(16, 8, 4), "4 blocks, but 2097155 elements make 3");
  // Rounding up by an addition would overflow here, to "0 blocks".
  ExpectRefused(With(8, 8, std::numeric_limits<uint64_t>::max()), "make 17592186044416");
}

TEST(Container, RefusesAHugeDirectoryBeforeAllocatingIt) {
  Bytes bytes = With(8, 8, std::numeric_limits<uint64_t>::max());
  const uint64_t blocks = uint64_t{1} << 44;
  std::memcpy(&bytes[16], &blocks, 8);
  ExpectRefused(bytes, "end inside the directory of 17592186044416 blocks");
}

TEST(Container, RefusesADirectoryThatDoesNotAddUp) {
  ExpectRefused(With(24, 4, kContainerBlockElements + 1), "1048577 entries over 1048576 elements");
  ExpectRefused(With(40, 4, 4), "4 entries over 3 elements");
  ExpectRefused(With(24, 4, 0), "0 entries in 5 bytes");
  ExpectRefused(With(32, 4, 1), "1 entries in 0 bytes");
  ExpectRefused(With(28, 4, 4), "1 bytes behind the last block");
  ExpectRefused(With(28, 4, 6), "reaches past the end");
  ExpectRefused(With(28, 4, 0xffffffff), "reaches past the end");
}

TEST(Container, SaysWhichFieldIsNotTheExpectedOne) {
  const Bytes bytes = Good();
  const ContainerView view = ContainerView::Parse(bytes).value();
  ContainerHeader other = kHeader;
  other.codec = CodecId::kSparseUpdateFast;
  EXPECT_EQ(view.Expect(other).message(), "codec 1, expected 2");
  other = kHeader;
  other.word_bytes = 4;
  EXPECT_EQ(view.Expect(other).message(), "words of 2 bytes, expected 4");
  other = kHeader;
  other.elements = 3;
  EXPECT_EQ(view.Expect(other).message(), "2097155 elements, expected 3");
  EXPECT_EQ(view.Expect(other).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pulse
