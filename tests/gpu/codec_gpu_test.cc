// The codecs' blocks on a GPU against the host's codecs, byte for byte.
#include "codec/device/delta_coder.h"
#include "codec/device/update_coder.h"
#include "codec/small_delta.h"
#include "core/rng.h"
#include "gpu_environment.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

const kernels::KernelTable& Host() {
  static const kernels::KernelTable table = kernels::ChooseKernels("auto").value();
  return table;
}

class CodecsOnGpu : public GpuTest {
 protected:
  DeviceWork OpenWork() { return DeviceWork::Open(driver_, clock_).value(); }
  Deadline Soon() { return Deadline::After(clock_, 60'000); }

  RealClock clock_;
  const kernels::DeviceKernels kernels_ = kernels::CudaKernels();
};

TEST_F(CodecsOnGpu, UpdatesHaveTheBytesOfTheHostAndComeBack) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{3000}, 5 * kSparseBlockElements + 777}) {
    for (const uint32_t per_mille : {0u, 10u, 600u, 1000u}) {
      Rng rng(3, {.use = RngUse::kTest, .step = per_mille, .sample = static_cast<uint32_t>(n)});
      std::vector<float> theta(n);
      SparseUpdate update;
      update.elements = n;
      for (uint64_t i = 0; i < n; ++i) {
        theta[i] = rng.Below(500) == 0 ? std::bit_cast<float>(rng.U32()) : rng.Normal() * 0.02f;
        if (i > 0 && i % kSparseBlockElements == 0) {
          update.starts.push_back(update.positions.size());
        }
        if (rng.Below(1000) >= per_mille) continue;
        update.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
        update.values.push_back(rng.Below(20) == 0 ? std::bit_cast<float>(rng.U32())
                                                   : theta[i] - (theta[i] + rng.Normal() * 1e-4f));
      }
      update.starts.push_back(update.positions.size());
      for (const UpdateCodec& codec :
           {UpdateCodec{UpdateCodecName::kFast, 0}, UpdateCodec{UpdateCodecName::kSmall, 0},
            UpdateCodec{UpdateCodecName::kSmall, 9}}) {
        SCOPED_TRACE(testing::Message() << n << ", " << per_mille << ", " << NameOf(codec.name));
        DeviceWork work = OpenWork();
        DeviceUpdateCoder coder(work, kernels_);
        const auto on_device = OnDevice(theta);
        const DeviceUpdate mine{n, update.starts, OnDevice(update.starts),
                                OnDevice(update.positions), OnDevice(update.values)};
        ASSERT_EQ(coder.Measure(codec, mine, on_device, Soon()), OkStatus());
        const auto bytes = coder.Encode(0, update.blocks(), Soon());
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_TRUE(*bytes == codec.Encode(Host(), update, theta));
        const auto back = coder.Decode(codec, *bytes, on_device, Soon());
        ASSERT_TRUE(back.ok()) << back.status();
        std::vector<uint32_t> positions(update.positions.size());
        std::vector<float> values(update.values.size());
        ASSERT_EQ(work.Down<uint32_t>(back->positions, std::span(positions), Soon()), OkStatus());
        ASSERT_EQ(work.Down<float>(back->values, std::span(values), Soon()), OkStatus());
        EXPECT_TRUE(positions == update.positions);
        EXPECT_EQ(std::memcmp(values.data(), update.values.data(), 4 * values.size()), 0);
      }
    }
  }
}

TEST_F(CodecsOnGpu, DeltasHaveTheBytesOfTheHostAndLeadToTheNewWords) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const uint64_t words : {uint64_t{1}, uint64_t{4099}, 5 * kContainerBlockElements + 777}) {
      for (const uint32_t per_mille : {0u, 10u, 700u}) {
        Rng rng(5, {.use = RngUse::kTest, .step = per_mille});
        std::vector<uint8_t> before, after;
        for (uint64_t i = 0; i < words; ++i) {
          const uint32_t bits = std::bit_cast<uint32_t>(rng.Normal() * 0.02f);
          const bool moves = rng.Below(1000) < per_mille;
          const uint32_t step = !moves ? 0 : rng.Below(30) == 0 ? rng.U32() : rng.Below(2) * 2 - 1;
          if (dtype == DType::kBF16) {
            AppendLittle(static_cast<uint16_t>(bits >> 16), before);
            AppendLittle(static_cast<uint16_t>((bits >> 16) + step), after);
          } else {
            AppendLittle(bits, before);
            AppendLittle(bits + step, after);
          }
        }
        for (const CodecId codec : {CodecId::kWordDeltaFast, CodecId::kWordDeltaSmall}) {
          DeviceWork work = OpenWork();
          DeviceDeltaCoder coder(work, kernels_);
          const auto was = OnDevice(before), is = OnDevice(after);
          const auto pieces = coder.Encode(codec, dtype, was, is, 1 << 20, Soon());
          ASSERT_TRUE(pieces.ok()) << pieces.status();
          ASSERT_EQ(pieces->size(), 1u);
          const auto host = codec == CodecId::kWordDeltaSmall
                                ? EncodeSmallDelta(Host(), before, after, dtype)
                                : EncodeWordDelta(Host(), before, after, SizeOf(dtype));
          ASSERT_TRUE(pieces->front().bytes == host->bytes);
          ASSERT_EQ(coder.Apply(codec, dtype, host->bytes, was, Soon()), OkStatus());
          EXPECT_TRUE(FromDevice<uint8_t>(was) == after);
        }
      }
    }
  }
}

// A block's bytes are anybody's: errors, and no access outside (compute-sanitizer looks).
TEST_F(CodecsOnGpu, DamagedBytesAreTakenExactlyWhereTheHostTakesThem) {
  Rng rng(6, {.use = RngUse::kTest});
  std::vector<uint8_t> before, after;
  for (int i = 0; i < 5000; ++i) {
    const auto word = static_cast<uint16_t>(std::bit_cast<uint32_t>(rng.Normal() * 0.02f) >> 16);
    AppendLittle(word, before);
    AppendLittle(static_cast<uint16_t>(word + (rng.Below(20) == 0 ? 1 : 0)), after);
  }
  DeviceWork work = OpenWork();
  DeviceDeltaCoder coder(work, kernels_);
  const auto words = OnDevice(before);
  for (const CodecId codec : {CodecId::kWordDeltaFast, CodecId::kWordDeltaSmall}) {
    const Bytes good = codec == CodecId::kWordDeltaSmall
                           ? EncodeSmallDelta(Host(), before, after, DType::kBF16)->bytes
                           : EncodeWordDelta(Host(), before, after, 2)->bytes;
    for (int i = 0; i < 200; ++i) {
      Bytes bad = good;
      bad[rng.Below(static_cast<uint32_t>(bad.size()))] ^= static_cast<uint8_t>(1 << rng.Below(8));
      Bytes expected(before.size());
      const Status host = codec == CodecId::kWordDeltaSmall
                              ? ApplySmallDelta(Host(), bad, before, DType::kBF16, expected)
                              : ApplyWordDelta(Host(), bad, before, 2, expected);
      ASSERT_EQ(work.Up(std::span<const uint8_t>(before), words, Soon()), OkStatus());
      const Status device = coder.Apply(codec, DType::kBF16, bad, words, Soon());
      ASSERT_EQ(device.code(), host.code()) << i << ": " << device << ", " << host;
      if (host.ok()) EXPECT_TRUE(FromDevice<uint8_t>(words) == expected);
    }
  }
}

}  // namespace
}  // namespace pulse
