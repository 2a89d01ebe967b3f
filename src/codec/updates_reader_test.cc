#include "codec/updates_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/rng.h"

namespace pulse {
namespace {

constexpr uint64_t kElements = 2 * kSparseBlockElements + 5000;

const kernels::KernelTable& Kernels() {
  static const auto table = *kernels::ChooseKernels("auto");
  return table;
}

// Weights of growing size, so that blocks differ in their largest exponents.
const std::vector<float>& Theta() {
  static const std::vector<float> theta = [] {
    Rng rng(1, {});
    std::vector<float> made(kElements);
    for (uint64_t i = 0; i < kElements; ++i) {
      made[i] = rng.Normal() * (i < kSparseBlockElements || i + 5000 >= kElements ? 0.02f : 5.0f);
    }
    return made;
  }();
  return theta;
}

// No entries in the second block of every other one.
SparseUpdate MakeUpdate(uint64_t seed) {
  Rng rng(seed, {});
  SparseUpdate update;
  update.elements = kElements;
  for (uint64_t i = 0; i < kElements; ++i) {
    if (i > 0 && i % kSparseBlockElements == 0) update.starts.push_back(update.entries());
    if (rng.Below(30) != 0 || (seed % 2 == 0 && i / kSparseBlockElements == 1)) continue;
    update.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
    const float theta = Theta()[i];
    update.values.push_back(theta - (theta - 1e-5f * rng.Normal()));
  }
  update.starts.push_back(update.entries());
  return update;
}

void ExpectSameEntries(const SparseEntries& a, const SparseEntries& b) {
  EXPECT_TRUE(std::ranges::equal(a.positions, b.positions));
  EXPECT_TRUE(std::ranges::equal(a.values, b.values, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  }));
}

TEST(UpdatesReader, ReadsSeveralUpdatesBlockByBlockWithOrWithoutKeptClasses) {
  const std::vector<SparseUpdate> updates = {MakeUpdate(1), MakeUpdate(2), MakeUpdate(3)};
  for (const UpdateCodecName name : {UpdateCodecName::kFast, UpdateCodecName::kSmall}) {
    const UpdateCodec codec = {.name = name};
    ClassesOfBlocks kept(Kernels().class_rank);
    for (ClassesOfBlocks* const classes : {static_cast<ClassesOfBlocks*>(nullptr), &kept}) {
      UpdatesReader reader(Kernels(), codec, kElements, Theta(), classes);
      std::vector<Bytes> bytes;
      for (const SparseUpdate& update : updates) {
        bytes.push_back(codec.Encode(Kernels(), update, Theta(), classes));
        EXPECT_EQ(bytes.back(), codec.Encode(Kernels(), update, Theta()));
      }
      for (size_t k = 0; k < bytes.size(); ++k) EXPECT_EQ(*reader.Add(bytes[k]), k);
      ASSERT_EQ(reader.blocks(), 3u);
      for (uint64_t b = 0; b < reader.blocks(); ++b) {
        std::vector<SparseEntries> read;
        for (size_t k = 0; k < updates.size(); ++k) {
          const auto entries = reader.Read(k, b);
          ASSERT_TRUE(entries.ok()) << entries.status();
          read.push_back(*entries);
        }
        // Each stays until its update is read again.
        for (size_t k = 0; k < updates.size(); ++k) {
          ExpectSameEntries(read[k], SparseUpdateView(updates[k]).Block(b));
        }
      }
    }
  }
}

TEST(UpdatesReader, APartOfAnUpdateIsEncodedAsAnUpdateOfItsOwn) {
  const SparseUpdate update = MakeUpdate(1);
  const uint64_t begin = kSparseBlockElements;
  const auto part = SparseUpdateView(update).Part(begin, kElements);
  const auto theta = std::span(Theta()).subspan(begin);
  for (const UpdateCodecName name : {UpdateCodecName::kFast, UpdateCodecName::kSmall}) {
    const UpdateCodec codec = {.name = name};
    const auto back =
        codec.Decode(Kernels(), codec.Encode(Kernels(), part, theta), theta.size(), theta);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->blocks(), 2u);
    for (size_t b = 0; b < 2; ++b)
      ExpectSameEntries(SparseUpdateView(*back).Block(b), part.Block(b));
  }
}

TEST(UpdatesReader, RefusesAnotherLayoutAtOnceAndDamageAtItsBlock) {
  const UpdateCodec codec = {.name = UpdateCodecName::kSmall};
  const Bytes good = codec.Encode(Kernels(), MakeUpdate(1), Theta());
  UpdatesReader reader(Kernels(), codec, kElements, Theta());
  EXPECT_TRUE(absl::IsDataLoss(reader.Add(ByteView(good).first(10)).status()));
  const Bytes fast = UpdateCodec{}.Encode(Kernels(), MakeUpdate(1), Theta());
  EXPECT_EQ(ToStd(reader.Add(fast).status().message()), "sparse update: codec 2, expected 4");
  Bytes damaged = good;
  damaged[damaged.size() - 1] ^= 0x80;
  ASSERT_TRUE(reader.Add(damaged).ok());
  EXPECT_TRUE(reader.Read(0, 0).ok());
  const Status status = reader.Read(0, 2).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(ToStd(status.message()), testing::HasSubstr("sparse update, block 2"));
}

}  // namespace
}  // namespace pulse
