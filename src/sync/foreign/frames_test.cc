// zstd frames in pieces, and checksums.
#include <gtest/gtest.h>

#include "sync/foreign/checksum.h"
#include "sync/foreign/testing_foreign.h"
#include "sync/foreign/zstd_stream.h"

namespace pulse {
namespace {

constexpr uint64_t kWindow = uint64_t{8} << 20;

// A frame of `plain`, with `behind` after it, as the only tensor of a file.
FrameReader ReaderOf(const Bytes& frame, uint64_t window = kWindow) {
  const std::vector<TensorSpec> specs = {{"w", DType::kU8, {frame.size()}}};
  Bytes file = *WriteSafetensorsHeader(specs, {});
  file.insert(file.end(), frame.begin(), frame.end());
  const auto opened = *TensorFile::Open(std::make_shared<OwnedSource>(file), "file");
  return FrameReader(EntryReader(opened, opened->entries()[0]), window);
}

Bytes FrameOf(const Bytes& plain) {
  Spool spool(nullptr, "", uint64_t{1} << 30);
  FrameWriter writer(spool);
  writer.Start(plain.size());
  for (size_t at = 0; at < plain.size(); at += 1000) {
    EXPECT_EQ(writer.Append(ByteView(plain).subspan(at, std::min<size_t>(1000, plain.size() - at))),
              OkStatus());
  }
  EXPECT_EQ(writer.Finish(), OkStatus());
  EXPECT_EQ(spool.Finish(), OkStatus());
  Bytes frame(spool.size());
  EXPECT_EQ(spool.Read(0, frame), OkStatus());
  return frame;
}

Bytes Plain(size_t size) {
  Bytes plain(size);
  for (size_t i = 0; i < size; ++i) plain[i] = static_cast<uint8_t>(i * i >> 8);
  return plain;
}

TEST(FrameReader, GivesBackWhatWasWrittenInPiecesOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'001}}) {
    const Bytes plain = Plain(size);
    FrameReader reader = ReaderOf(FrameOf(plain));
    Bytes got(size);
    for (size_t at = 0, piece = 1; at < size; at += piece, piece = piece * 7 % 1013) {
      piece = std::min(piece, size - at);
      ASSERT_EQ(reader.Fill(ByteSpan(got).subspan(at, piece)), OkStatus());
    }
    EXPECT_EQ(reader.Finish(), OkStatus());
    EXPECT_EQ(got, plain);
  }
}

TEST(FrameReader, RefusesMoreOrLessThanIsAskedFor) {
  const Bytes frame = FrameOf(Plain(1000));
  Bytes some(999), more(1001);
  FrameReader short_reader = ReaderOf(frame);
  ASSERT_EQ(short_reader.Fill(some), OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(short_reader.Finish()));
  FrameReader long_reader = ReaderOf(frame);
  EXPECT_TRUE(absl::IsDataLoss(long_reader.Fill(more)));
}

TEST(FrameReader, RefusesWhatIsCutOrHasMoreBehindIt) {
  const Bytes frame = FrameOf(Plain(1000));
  for (size_t size = 0; size < frame.size(); ++size) {
    FrameReader reader = ReaderOf(Bytes(frame.begin(), frame.begin() + static_cast<long>(size)));
    Bytes got(1000);
    Status status = reader.Fill(got);
    if (status.ok()) status = reader.Finish();
    EXPECT_TRUE(absl::IsDataLoss(status)) << size;
  }
  Bytes longer = frame;
  longer.push_back(0);
  FrameReader reader = ReaderOf(longer);
  Bytes got(1000);
  ASSERT_EQ(reader.Fill(got), OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(reader.Finish()));
}

TEST(FrameReader, RefusesSkippableFramesAndLargeWindows) {
  Bytes got(1);
  FrameReader skippable = ReaderOf({0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0});
  EXPECT_TRUE(absl::IsDataLoss(skippable.Fill(got)));
  // A frame that asks for a window of 128 MiB and then ends.
  FrameReader hungry = ReaderOf({0x28, 0xB5, 0x2F, 0xFD, 0x00, 17 << 3, 1, 0, 0});
  EXPECT_TRUE(absl::IsResourceExhausted(hungry.Fill(got)));
}

TEST(Checksum, IsTheKnownOne) {
  const auto of = [](std::string_view kind, std::string_view text) {
    const auto checksum = *MakeChecksum(kind);
    for (const char c : text) checksum->Update(AsBytes(std::string_view(&c, 1)));
    return checksum->Hex();
  };
  EXPECT_EQ(of("adler32", "Wikipedia"), "11e60398");
  EXPECT_EQ(of("adler32", ""), "00000001");
  EXPECT_EQ(of("xxh3-128", ""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(of("xxh3-128", "weights"), DigestOf(AsBytes(std::string_view("weights"))).Hex());
  EXPECT_TRUE(absl::IsUnimplemented(MakeChecksum("blake3").status()));
}

}  // namespace
}  // namespace pulse
