// The device's coder of word deltas against the host's, byte for byte, on a mocked device whose
// kernels are the device's bodies run on the host.
#include "codec/device/delta_coder.h"

#include "codec/device/device_test_world.h"
#include "codec/small_delta.h"
#include "core/rng.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

const kernels::KernelTable& Host() {
  static const kernels::KernelTable table = kernels::ChooseKernels("simd").value();
  return table;
}

struct Views {
  Bytes before, after;
};

// Weights of which per_mille moved, mostly by one unit in the last place.
Views MakeViews(DType dtype, uint64_t words, uint32_t per_mille) {
  Rng rng(5, {.use = RngUse::kTest, .step = per_mille, .sample = static_cast<uint32_t>(words)});
  Views views;
  for (uint64_t i = 0; i < words; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(rng.Normal() * 0.02f);
    const bool moves = rng.Below(1000) < per_mille;
    const uint32_t step = !moves ? 0 : rng.Below(30) == 0 ? rng.U32() : rng.Below(2) * 2 - 1;
    if (dtype == DType::kBF16) {
      AppendLittle(static_cast<uint16_t>(bits >> 16), views.before);
      AppendLittle(static_cast<uint16_t>((bits >> 16) + step), views.after);
    } else {
      AppendLittle(bits, views.before);
      AppendLittle(bits + step, views.after);
    }
  }
  return views;
}

StatusOr<WordDelta> HostDelta(CodecId codec, DType dtype, ByteView before, ByteView after) {
  return codec == CodecId::kWordDeltaSmall ? EncodeSmallDelta(Host(), before, after, dtype)
                                           : EncodeWordDelta(Host(), before, after, SizeOf(dtype));
}

constexpr uint64_t kBlock = kContainerBlockElements;

TEST(DeviceDeltaCoder, WritesTheBytesOfTheHostForEveryPieceAndAppliesThem) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const uint64_t words : {uint64_t{1}, uint64_t{4099}, 2 * kBlock + 777}) {
      for (const uint32_t per_mille : {0u, 10u, 700u}) {
        const Views views = MakeViews(dtype, words, per_mille);
        for (const CodecId codec : {CodecId::kWordDeltaFast, CodecId::kWordDeltaSmall}) {
          SCOPED_TRACE(testing::Message()
                       << NameOf(dtype) << ", " << words << " words, " << per_mille
                       << " per mille, codec " << static_cast<int>(codec));
          DeviceTestWorld world(words % 2 == 1);
          DeviceWork work = world.OpenWork().value();
          const auto before = world.OnDevice(work, views.before);
          const auto after = world.OnDevice(work, views.after);
          // Ranges of two blocks and pieces of one: a range has several, the array several ranges.
          DeviceDeltaCoder coder(work, world.kernels(), 2);
          const auto pieces = coder.Encode(codec, dtype, before, after, 1, Deadline::Never());
          ASSERT_TRUE(pieces.ok()) << pieces.status();
          const uint64_t piece_bytes = kBlock * SizeOf(dtype);
          ASSERT_EQ(pieces->size(), (views.before.size() + piece_bytes - 1) / piece_bytes);
          for (size_t p = 0; p < pieces->size(); ++p) {
            const uint64_t at = p * piece_bytes;
            const uint64_t bytes = std::min<uint64_t>(piece_bytes, views.before.size() - at);
            const WordDelta host =
                HostDelta(codec, dtype, ByteView(views.before).subspan(at, bytes),
                          ByteView(views.after).subspan(at, bytes))
                    .value();
            EXPECT_EQ((*pieces)[p].changed, host.changed);
            ASSERT_TRUE((*pieces)[p].bytes == host.bytes) << "piece " << p;
            ASSERT_EQ(
                coder.Apply(codec, dtype, host.bytes, before.subspan(at, bytes), Deadline::Never()),
                OkStatus());
          }
          EXPECT_TRUE(world.FromDevice<uint8_t>(work, before) == views.after);
          EXPECT_THAT(world.device().violations(), testing::IsEmpty());
        }
      }
    }
  }
}

TEST(DeviceDeltaCoder, TakesDamagedBytesExactlyWhereTheHostDoes) {
  Rng rng(6, {.use = RngUse::kTest});
  int taken = 0;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Views views = MakeViews(dtype, 5000, 60);
    for (const CodecId codec : {CodecId::kWordDeltaFast, CodecId::kWordDeltaSmall}) {
      const Bytes good = HostDelta(codec, dtype, views.before, views.after)->bytes;
      DeviceTestWorld world;
      DeviceWork work = world.OpenWork().value();
      DeviceDeltaCoder coder(work, world.kernels());
      const auto words = world.OnDevice(work, views.before);
      for (int i = 0; i < 400; ++i) {
        Bytes bad = good;
        bad[rng.Below(static_cast<uint32_t>(bad.size()))] ^=
            static_cast<uint8_t>(1 << rng.Below(8));
        if (i % 7 == 0) bad.resize(bad.size() - 1 - rng.Below(3));
        Bytes expected(views.before.size());
        const Status host =
            codec == CodecId::kWordDeltaSmall
                ? ApplySmallDelta(Host(), bad, views.before, dtype, expected)
                : ApplyWordDelta(Host(), bad, views.before, SizeOf(dtype), expected);
        ASSERT_EQ(work.Up(std::span<const uint8_t>(views.before), words, Deadline::Never()),
                  OkStatus());
        const Status device = coder.Apply(codec, dtype, bad, words, Deadline::Never());
        ASSERT_EQ(device.ok(), host.ok()) << i << ": " << device << ", " << host;
        if (!host.ok()) {
          EXPECT_EQ(device.code(), host.code());
          continue;
        }
        ++taken;
        EXPECT_TRUE(world.FromDevice<uint8_t>(work, words) == expected);
      }
    }
  }
  EXPECT_GT(taken, 10) << "flipped signs make other steps";
}

TEST(DeviceDeltaCoder, RefusesWordsThatNoMasterHasAsItsView) {
  DeviceTestWorld world;
  DeviceWork work = world.OpenWork().value();
  DeviceDeltaCoder coder(work, world.kernels());
  EXPECT_TRUE(absl::IsUnimplemented(
      coder.Encode(CodecId::kWordDeltaFast, DType::kF16, {}, {}, 1, Deadline::Never()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(coder
                                          .Encode(CodecId::kWordDeltaFast, DType::kF32,
                                                  {nullptr, 4}, {nullptr, 8}, 1, Deadline::Never())
                                          .status()));
}

}  // namespace
}  // namespace pulse
