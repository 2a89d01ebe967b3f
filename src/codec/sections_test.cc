#include "codec/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <numeric>

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Bytes Frame(const Bytes& plain) {
  Bytes out;
  SectionWriter().Write(plain, out);
  return out;
}

void ExpectRefused(const Bytes& payload, size_t min_bytes, size_t max_bytes, std::string_view why) {
  SectionReader reader;
  reader.Start(payload);
  const auto section = reader.Read(min_bytes, max_bytes);
  ASSERT_FALSE(section.ok()) << why;
  EXPECT_EQ(section.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(section.status().message()), HasSubstr(std::string(why)));
}

TEST(Sections, AreReadInTheOrderWritten) {
  Bytes payload;
  SectionWriter writer;
  writer.Write(Bytes{1, 2, 3}, payload);
  writer.Write(Bytes{}, payload);
  writer.Write(Bytes(1000, 7), payload);
  SectionReader reader;
  reader.Start(payload);
  EXPECT_THAT(reader.Read(3, 3).value(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(reader.Finish().ok());
  EXPECT_EQ(reader.Read(1, 2000).value().size(), 1000u);
  EXPECT_TRUE(reader.Finish().ok());
}

TEST(Sections, PlanesHoldOneByteOfEveryWord) {
  Bytes payload;
  SectionWriter writer;
  writer.WritePlanes(Bytes{1, 2, 3, 4, 5, 6}, 2, payload);
  SectionReader reader;
  reader.Start(payload);
  EXPECT_THAT(reader.Read(3, 3).value(), ElementsAre(1, 3, 5));
  EXPECT_THAT(reader.Read(3, 3).value(), ElementsAre(2, 4, 6));
  Bytes words(6);
  reader.Start(payload);
  ASSERT_TRUE(reader.ReadPlanes(2, words).ok());
  EXPECT_THAT(words, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Sections, OfTheWrongSizeAreRefusedBeforeTheyAreUnpacked) {
  ExpectRefused(Frame(Bytes(10, 1)), 1, 9, "a section of 10 bytes, expected 1 to 9");
  ExpectRefused(Frame(Bytes(10, 1)), 11, 20, "a section of 10 bytes, expected 11 to 20");
  // A bomb: 1 GiB in 32 KiB. The claim is refused; nothing of that size is allocated.
  Bytes bomb = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40};  // frame header: 2^30 bytes
  const uint32_t rle = 1u << 1 | (128u << 10) << 3;            // a block of 128 KiB zeros
  for (int i = 0; i < 8192; ++i) {
    const uint32_t header = rle | (i == 8191);
    bomb.insert(bomb.end(), {uint8_t(header), uint8_t(header >> 8), uint8_t(header >> 16), 0});
  }
  ASSERT_EQ(ZSTD_getFrameContentSize(bomb.data(), bomb.size()), 1u << 30);
  ASSERT_EQ(ZSTD_findFrameCompressedSize(bomb.data(), bomb.size()), bomb.size());
  ExpectRefused(bomb, 1, 1 << 20, "a section of 1073741824 bytes");
}

TEST(Sections, ThatHoldMoreOrLessThanTheySayAreRefused) {
  // Byte 5 of a small frame is its content size.
  Bytes frame = Frame({1, 2, 3, 4});
  ASSERT_EQ(frame[5], 4);
  frame[5] = 3;
  ExpectRefused(frame, 1, 10, "broken");
  frame[5] = 5;
  ExpectRefused(frame, 1, 10, "broken");
}

TEST(Sections, WithoutAContentSizeAreRefused) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  const Bytes plain(100, 1);
  Bytes frame(ZSTD_compressBound(plain.size()));
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), plain.data(), plain.size()));
  ZSTD_freeCCtx(context);
  ExpectRefused(frame, 1, 1000, "does not say its size");
}

TEST(Sections, ThatAreNoZstdFramesAreRefused) {
  ExpectRefused({}, 1, 10, "no zstd frame");
  ExpectRefused({0x28, 0xb5, 0x2f}, 1, 10, "no zstd frame");
  ExpectRefused({0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, 1, 10, "no zstd frame");  // skippable
  Bytes old = Frame({1, 2, 3, 4});
  old[0] = 0x27;  // zstd 0.7
  ExpectRefused(old, 1, 10, "no zstd frame");
}

TEST(Sections, EmptyFramesAreRefused) {
  const Bytes empty = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0};
  ASSERT_EQ(ZSTD_getFrameContentSize(empty.data(), empty.size()), 0u);
  ExpectRefused(empty, 1, 10, "a section of 0 bytes, expected 1 to 10");
}

TEST(Sections, EveryTruncationIsRefused) {
  Bytes plain(5000);
  std::iota(plain.begin(), plain.end(), uint8_t{0});
  for (const Bytes& frame : {Frame(plain), Frame({1, 2, 3})}) {
    for (size_t size = 0; size < frame.size(); ++size) {
      SectionReader reader;
      const Bytes cut(frame.begin(), frame.begin() + ptrdiff_t(size));
      reader.Start(cut);
      EXPECT_FALSE(reader.Read(1, 10000).ok());
    }
  }
}

}  // namespace
}  // namespace pulse
