#include "codec/bit_stream.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(BitStream, PutsTheFirstBitLowest) {
  Bytes bytes = {0xAA};
  BitWriter writer(bytes);
  writer.Reserve(100);
  writer.Write(1, 1);
  writer.Write(0, 0);
  writer.Write(0b10, 2);
  writer.Write(0xABCDEF12345678, kMostBits);
  writer.Finish();
  EXPECT_EQ(bytes, (Bytes{0xAA, 0xC5, 0xB3, 0xA2, 0x91, 0x78, 0x6F, 0x5E, 0x05}));
  BitReader reader;
  reader.Start(ByteView(bytes).subspan(1));
  EXPECT_EQ(reader.Read(1), 1u);
  EXPECT_EQ(reader.Read(2), 2u);
  EXPECT_EQ(reader.Read(kMostBits), 0xABCDEF12345678u);
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(BitStream, ReadsZerosBehindTheEndAndSaysSo) {
  BitReader reader;
  reader.Start(Bytes{0xFF});
  EXPECT_EQ(reader.Read(7), 0x7Fu);
  EXPECT_FALSE(reader.IsAtEnd());  // a one where filling should be
  EXPECT_EQ(reader.Read(1), 1u);
  EXPECT_TRUE(reader.IsAtEnd());
  EXPECT_EQ(reader.Read(kMostBits), 0u);
  EXPECT_TRUE(reader.IsSpent());
  EXPECT_FALSE(reader.IsAtEnd());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reader.Read(kMostBits), 0u);
  reader.Start(Bytes{0, 0});
  EXPECT_FALSE(reader.IsAtEnd());  // a byte too many
  reader.Start({});
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(BitStream, AWindowReadsTheBitsOfItsReader) {
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Reserve(3000);
  for (unsigned i = 0; i < 100; ++i) writer.Write(i * 0x9E3779B9u & 0x1FFFFFF, 25);
  writer.Finish();
  for (unsigned first = 0; first < 9; ++first) {
    for (const unsigned step : {0u, 1u, 7u, 8u, 13u, 33u}) {
      BitReader reader;
      reader.Start(bytes);
      reader.Skip(first);
      BitWindow window = reader.Window();
      for (int i = 0; i < 40; ++i) {
        const uint64_t mask = (uint64_t{1} << kMostBits) - 1;
        EXPECT_EQ(window.bits() & mask, reader.Peek() & mask) << first << " " << step;
        EXPECT_EQ(window.low_bits() & 0x7FF, reader.Peek() & 0x7FF) << first << " " << step;
        window.Skip(step);
        reader.Skip(step);
      }
      const uint64_t left = reader.bytes_left();
      const uint64_t next = reader.Peek();
      reader.Skip(5);
      reader.MoveTo(window);
      EXPECT_EQ(reader.bytes_left(), left);
      EXPECT_EQ(reader.Peek(), next);
    }
  }
}

}  // namespace
}  // namespace pulse
