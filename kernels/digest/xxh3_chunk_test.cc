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
Digest OnHost(const uint8_t* bytes, uint64_t length = kXxh3ChunkBytes) {
  const Xxh3Secret secret;
  const Xxh3Plan plan(length);
  std::vector<Xxh3Thread> threads;
  for (uint32_t t = 0; t < 32; ++t) threads.emplace_back(secret, t);
  Xxh3Lanes pairs[4];
  for (uint32_t pair = 0; pair < 4; ++pair) pairs[pair] = threads[pair].Start();
  for (uint32_t block = 0; block < plan.blocks; ++block) {
    for (uint32_t t = 0; t < 32; ++t) {
      const uint8_t* from = bytes + block * kXxh3BlockBytes + t * 16;
      const Pack<uint64_t, 2> data[] = {LoadXxh3Data<Word>(from), LoadXxh3Data<Word>(from + 512)};
      pairs[t % 4].Add(threads[t].Part(data));
    }
    for (uint32_t pair = 0; pair < 4; ++pair) pairs[pair].Scramble(threads[pair].scramble_secret);
  }
  for (uint32_t t = 0; t < 32; ++t) {
    pairs[t % 4].Add(threads[t].LastPart(plan, bytes, LoadXxh3Data<Word>, LoadXxh3Data<uint8_t>));
  }
  uint64_t merged[2] = {0, 0};
  for (uint32_t pair = 0; pair < 4; ++pair) {
    for (int which = 0; which < 2; ++which) {
      merged[which] += threads[pair].Merged(secret, pairs[pair], which);
    }
  }
  return Canonical(Xxh3Thread::Finished(merged[1], 1, length),
                   Xxh3Thread::Finished(merged[0], 0, length));
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

TEST(Xxh3Chunk, OfEveryShorterLength) {
  Bytes bytes(kXxh3ChunkBytes);
  Rng rng(7, {.use = RngUse::kTest});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  for (uint64_t length = kXxh3ShortestChunk; length <= 2200; ++length) {
    ASSERT_EQ(OnHost<uint64_t>(bytes.data(), length), DigestOf(ByteView(bytes).first(length)))
        << length;
  }
  for (const uint64_t less : {1, 63, 64, 65, 1023, 1024, 1025}) {
    const uint64_t length = kXxh3ChunkBytes - less;
    EXPECT_EQ(OnHost<uint32_t>(bytes.data(), length), DigestOf(ByteView(bytes).first(length)))
        << length;
  }
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
