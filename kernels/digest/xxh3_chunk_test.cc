#include "kernels/digest/xxh3_chunk.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/digest.h"
#include "core/rng.h"

namespace pulse::kernels {
namespace {

Digest Canonical(uint64_t high, uint64_t low) {
  Digest digest;
  for (size_t i = 0; i < 8; ++i) {
    digest.bytes[i] = static_cast<uint8_t>(high >> (56 - 8 * i));
    digest.bytes[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
  }
  return digest;
}

// What the warp of digest_cuda.cu does, its threads one after the other.
template <typename Word>
Digest OnHost(const uint8_t* bytes) {
  const Xxh3Secret secret;
  std::vector<Xxh3Thread> threads;
  for (uint32_t t = 0; t < 32; ++t) threads.emplace_back(secret, t);
  Xxh3Lanes pairs[4];
  for (uint32_t pair = 0; pair < 4; ++pair) pairs[pair] = threads[pair].Start();
  for (uint32_t block = 0; block < kXxh3Blocks; ++block) {
    const bool last = block == kXxh3Blocks - 1;
    for (uint32_t t = 0; t < 32; ++t) {
      const uint8_t* from = bytes + block * kXxh3BlockBytes + t * 16;
      const Pack<uint64_t, 2> data[] = {LoadXxh3Data<Word>(from), LoadXxh3Data<Word>(from + 512)};
      pairs[t % 4].Add(threads[t].Part(data, last));
    }
    for (uint32_t pair = 0; pair < 4 && !last; ++pair) {
      pairs[pair].Scramble(threads[pair].scramble_secret);
    }
  }
  uint64_t merged[2] = {0, 0};
  for (uint32_t pair = 0; pair < 4; ++pair) {
    for (int which = 0; which < 2; ++which) {
      merged[which] += threads[pair].Merged(secret, pairs[pair], which);
    }
  }
  return Canonical(Xxh3Thread::Finished(merged[1], 1), Xxh3Thread::Finished(merged[0], 0));
}

TEST(Xxh3Chunk, TheMathsOfTheCudaBodyGivesTheDigestOfXxhash) {
  Bytes bytes(kXxh3ChunkBytes);
  for (uint32_t sample = 0; sample < 4; ++sample) {
    Rng rng(5, {.use = RngUse::kTest, .sample = sample});
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
    if (sample == 1) std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    if (sample == 2) std::fill(bytes.begin(), bytes.end(), uint8_t{0xFF});
    EXPECT_EQ(OnHost<uint64_t>(bytes.data()), DigestOf(bytes)) << sample;
  }
}

TEST(Xxh3Chunk, ReadsChunksAtEveryAlignment) {
  Bytes bytes(kXxh3ChunkBytes + 4);
  Rng rng(6, {.use = RngUse::kTest});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  const auto expected = [&](size_t at) {
    return DigestOf(ByteView(bytes).subspan(at, kXxh3ChunkBytes));
  };
  EXPECT_EQ(OnHost<uint32_t>(bytes.data() + 4), expected(4));
  EXPECT_EQ(OnHost<uint16_t>(bytes.data() + 2), expected(2));
  EXPECT_EQ(OnHost<uint8_t>(bytes.data() + 1), expected(1));
}

// One bit anywhere, the last stripe and each lane of it included.
TEST(Xxh3Chunk, SeesEveryBitOfTheLastStripe) {
  Bytes bytes(kXxh3ChunkBytes);
  for (size_t at = kXxh3ChunkBytes - 64; at < kXxh3ChunkBytes; at += 7) {
    bytes[at] = 0x40;
    EXPECT_EQ(OnHost<uint64_t>(bytes.data()), DigestOf(bytes)) << at;
    bytes[at] = 0;
  }
}

TEST(Xxh3Chunk, IsTheChunkOfTheDigestTree) {
  EXPECT_EQ(kXxh3ChunkBytes, kDigestChunkBytes);
}

}  // namespace
}  // namespace pulse::kernels
