// The device's coder of sparse updates against the host's, byte for byte, on a mocked device whose
// kernels are the device's bodies run on the host.
#include "codec/device/update_coder.h"

#include "codec/device/device_test_world.h"
#include "core/rng.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

const kernels::KernelTable& Host() {
  static const kernels::KernelTable table = kernels::ChooseKernels("simd").value();
  return table;
}

struct Sample {
  std::vector<float> theta;
  SparseUpdate update;
};

// per_mille: entries. Mostly on theta's grid, some any bits; theta too.
Sample MakeSample(uint64_t n, uint32_t per_mille) {
  Rng rng(3, {.use = RngUse::kTest, .step = per_mille, .sample = static_cast<uint32_t>(n)});
  Sample sample;
  sample.theta.resize(n);
  for (float& theta : sample.theta) {
    theta = rng.Below(500) == 0 ? std::bit_cast<float>(rng.U32()) : rng.Normal() * 0.02f;
  }
  sample.update.elements = n;
  for (uint64_t i = 0; i < n; ++i) {
    if (i > 0 && i % kSparseBlockElements == 0) {
      sample.update.starts.push_back(sample.update.positions.size());
    }
    if (rng.Below(1000) >= per_mille) continue;
    const float theta = sample.theta[i];
    sample.update.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
    sample.update.values.push_back(rng.Below(20) == 0 ? std::bit_cast<float>(rng.U32())
                                                      : theta - (theta + rng.Normal() * 1e-4f));
  }
  sample.update.starts.resize(SparseBlocksFor(n) + 1, sample.update.positions.size());
  return sample;
}

const std::vector<UpdateCodec> kCodecs = {
    {UpdateCodecName::kFast, 0}, {UpdateCodecName::kSmall, 0}, {UpdateCodecName::kSmall, 9}};

SparseUpdate Slice(const SparseUpdate& whole, uint64_t first, uint64_t last) {
  SparseUpdate slice;
  slice.elements =
      std::min(last * kSparseBlockElements, whole.elements) - first * kSparseBlockElements;
  slice.starts.clear();
  const uint64_t begin = whole.starts[first], end = whole.starts[last];
  for (uint64_t b = first; b <= last; ++b) slice.starts.push_back(whole.starts[b] - begin);
  slice.positions.assign(whole.positions.begin() + static_cast<ptrdiff_t>(begin),
                         whole.positions.begin() + static_cast<ptrdiff_t>(end));
  slice.values.assign(whole.values.begin() + static_cast<ptrdiff_t>(begin),
                      whole.values.begin() + static_cast<ptrdiff_t>(end));
  return slice;
}

DeviceUpdate ToDevice(DeviceTestWorld& world, DeviceWork& work, const SparseUpdate& update) {
  DeviceUpdate on_device;
  on_device.elements = update.elements;
  on_device.starts = update.starts;
  on_device.device_starts = world.OnDevice(work, update.starts);
  on_device.positions = world.OnDevice(work, update.positions);
  on_device.values = world.OnDevice(work, update.values);
  return on_device;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// The measured update, encoded and decoded without leaving the device.
void ExpectTheSameOnDevice(DeviceTestWorld& world, DeviceWork& work, DeviceUpdateCoder& coder,
                           const UpdateCodec& codec, const Bytes& expected,
                           DeviceSpan<const float> theta, const SparseUpdate& update) {
  DeviceRoom room;
  const auto made =
      coder.EncodeOnDevice(0, update.blocks(), /*behind=*/16, room, Deadline::Never());
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->size, expected.size() + 16);
  const auto bytes = made->first(expected.size());
  EXPECT_TRUE(world.FromDevice<uint8_t>(work, bytes) == expected);
  const auto back = coder.DecodeOnDevice(codec, bytes, theta, Deadline::Never());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->starts, update.starts);
  EXPECT_TRUE(world.FromDevice<uint32_t>(work, back->positions) == update.positions);
  EXPECT_TRUE(Bits(world.FromDevice<float>(work, back->values)) == Bits(update.values));
}

TEST(DeviceUpdateCoder, WritesTheBytesOfTheHostAndReadsThemBack) {
  for (const uint64_t n : {1u, 5u, 3000u, (1u << 20) - 1, (1u << 20) + 777}) {
    for (const uint32_t per_mille : {0u, 10u, 600u, 1000u}) {
      const Sample sample = MakeSample(n, per_mille);
      for (const UpdateCodec& codec : kCodecs) {
        SCOPED_TRACE(testing::Message() << n << " elements, " << per_mille << " per mille, codec "
                                        << NameOf(codec.name) << " " << codec.coarser);
        DeviceTestWorld world(n % 2 == 1);
        DeviceWork work = world.OpenWork().value();
        const auto theta = world.OnDevice(work, sample.theta);
        DeviceUpdateCoder coder(work, world.kernels());
        const DeviceUpdate update = ToDevice(world, work, sample.update);
        ASSERT_EQ(coder.Measure(codec, update, theta, Deadline::Never()), OkStatus());
        const auto bytes = coder.Encode(0, sample.update.blocks(), Deadline::Never());
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_TRUE(*bytes == codec.Encode(Host(), sample.update, sample.theta));
        const auto back = coder.Decode(codec, *bytes, theta, Deadline::Never());
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_EQ(back->starts, sample.update.starts);
        EXPECT_TRUE(world.FromDevice<uint32_t>(work, back->positions) == sample.update.positions);
        EXPECT_TRUE(Bits(world.FromDevice<float>(work, back->values)) ==
                    Bits(sample.update.values));
        if (codec.name == UpdateCodecName::kSmall) {
          ExpectTheSameOnDevice(world, work, coder, codec, *bytes, theta, sample.update);
        }
        EXPECT_THAT(world.device().violations(), testing::IsEmpty());
      }
    }
  }
}

TEST(DeviceUpdateCoder, EncodesRangesOfBlocksAsUpdatesOfTheirOwn) {
  const Sample sample = MakeSample(2 * kSparseBlockElements + 5000, 30);
  for (const UpdateCodec& codec : kCodecs) {
    DeviceTestWorld world;
    DeviceWork work = world.OpenWork().value();
    const auto theta = world.OnDevice(work, sample.theta);
    DeviceUpdateCoder coder(work, world.kernels());
    ASSERT_EQ(coder.Measure(codec, ToDevice(world, work, sample.update), theta, Deadline::Never()),
              OkStatus());
    for (const auto& [first, last] : {std::pair<uint64_t, uint64_t>{0, 1}, {1, 3}, {2, 3}}) {
      const SparseUpdate slice = Slice(sample.update, first, last);
      const auto of_theta =
          std::span(sample.theta).subspan(first * kSparseBlockElements, slice.elements);
      const auto bytes = coder.Encode(first, last, Deadline::Never());
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == codec.Encode(Host(), slice, of_theta)) << first << " to " << last;
    }
  }
}

// Any bytes: the device takes what the host takes, and nothing else.
TEST(DeviceUpdateCoder, TakesDamagedBytesExactlyWhereTheHostDoes) {
  const Sample sample = MakeSample(3000, 40);
  Rng rng(4, {.use = RngUse::kTest});
  int taken = 0;
  for (const UpdateCodec& codec : kCodecs) {
    const Bytes good = codec.Encode(Host(), sample.update, sample.theta);
    DeviceTestWorld world;
    DeviceWork work = world.OpenWork().value();
    const auto theta = world.OnDevice(work, sample.theta);
    DeviceUpdateCoder coder(work, world.kernels());
    for (int i = 0; i < 400; ++i) {
      Bytes bad = good;
      bad[rng.Below(static_cast<uint32_t>(bad.size()))] ^= static_cast<uint8_t>(1 << rng.Below(8));
      if (i % 7 == 0) bad.resize(bad.size() - 1 - rng.Below(3));
      const auto host = codec.Decode(Host(), bad, sample.theta.size(), sample.theta);
      const auto device = coder.Decode(codec, bad, theta, Deadline::Never());
      ASSERT_EQ(device.ok(), host.ok()) << i << ": " << device.status() << ", " << host.status();
      if (codec.name == UpdateCodecName::kSmall) {
        const auto there =
            coder.DecodeOnDevice(codec, world.OnDevice(work, bad), theta, Deadline::Never());
        ASSERT_EQ(there.status().code(), host.status().code()) << i << ": " << there.status();
      }
      if (!host.ok()) {
        EXPECT_EQ(device.status().code(), host.status().code());
        continue;
      }
      ++taken;
      EXPECT_TRUE(world.FromDevice<uint32_t>(work, device->positions) == host->positions);
      EXPECT_TRUE(Bits(world.FromDevice<float>(work, device->values)) == Bits(host->values));
    }
    EXPECT_THAT(world.device().violations(), testing::IsEmpty());
  }
  EXPECT_GT(taken, 10) << "flipped bits of values make other values";
}

TEST(DeviceUpdateCoder, ReportsTheFailureOfEveryCallAndLeavesNothingBehind) {
  const Sample sample = MakeSample(3000, 40);
  for (const UpdateCodec& codec : kCodecs) {
    for (uint64_t call = 0;; ++call) {
      DeviceTestWorld world;
      MockedDevice& device = world.device();
      const auto body = [&]() -> Status {
        PULSE_ASSIGN_OR_RETURN(DeviceWork work, world.OpenWork());
        const auto theta = world.OnDevice(work, sample.theta);
        const DeviceUpdate update = ToDevice(world, work, sample.update);
        DeviceUpdateCoder coder(work, world.kernels());
        device.FailCall(device.calls() + call, 719);  // cudaErrorLaunchFailure
        PULSE_RETURN_IF_ERROR(coder.Measure(codec, update, theta, Deadline::Never()));
        PULSE_ASSIGN_OR_RETURN(const Bytes bytes, coder.Encode(0, 1, Deadline::Never()));
        return coder.Decode(codec, bytes, theta, Deadline::Never()).status();
      };
      const Status status = body();
      EXPECT_THAT(device.violations(), testing::IsEmpty()) << "call " << call;
      if (!device.failed_a_call()) {
        EXPECT_EQ(status, OkStatus());
        EXPECT_GT(call, 25u) << "the scenario makes calls that can fail";
        break;
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << "call " << call << ": " << status;
    }
  }
}

}  // namespace
}  // namespace pulse
