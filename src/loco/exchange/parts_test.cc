// What the exchanges are made of: slices, owners' ranges, segments, partial sums.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

#include "core/rng.h"
#include "loco/exchange/contribution.h"
#include "loco/exchange/partial_sum.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/payload_fold.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kBlock = kSparseBlockElements;

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Every `gap`-th element or so is not zero.
std::vector<float> Array(uint64_t elements, uint32_t gap) {
  Rng rng(3, {});
  std::vector<float> array(elements);
  for (uint64_t i = rng.Below(gap); i < elements; i += 1 + rng.Below(2 * gap)) {
    array[i] = rng.Normal();
  }
  return array;
}

TEST(Slice, HoldsTheEntriesOfItsRangeWhereverItBeginsAndEnds) {
  const auto array = Array(3 * kBlock + 17, 50);
  const SparseUpdate whole = SparseFromNonZero(array);
  ASSERT_EQ(Validate(whole), OkStatus());
  const uint64_t borders[] = {0,
                              1,
                              kBlock - 1,
                              kBlock,
                              kBlock + 1,
                              2 * kBlock,
                              2 * kBlock + 777,
                              3 * kBlock,
                              3 * kBlock + 17};
  for (const uint64_t begin : borders) {
    for (const uint64_t end : borders) {
      if (end < begin) continue;
      const SparseUpdate slice = Slice({.sparse = &whole, .dense = {}}, begin, end);
      EXPECT_EQ(Validate(slice), OkStatus()) << begin << " to " << end;
      EXPECT_EQ(slice.elements, end - begin);
      const auto expected = std::span(array).subspan(begin, end - begin);
      EXPECT_EQ(slice.entries(), CountNonZero(expected));
      std::vector<float> back(end - begin, 5.0f), direct(end - begin, 5.0f);
      DenseFromSparse(slice, 0, back);
      EXPECT_TRUE(Bits(back) == Bits(expected)) << begin << " to " << end;
      DenseFromSparse(whole, begin, direct);
      EXPECT_TRUE(Bits(direct) == Bits(expected)) << begin << " to " << end;
    }
  }
}

TEST(Slice, OfADenseArrayHasEveryElementAsAnEntry) {
  const auto array = Array(kBlock + 5, 3);
  const SparseUpdate slice = Slice({.sparse = nullptr, .dense = array}, 2, kBlock + 5);
  EXPECT_EQ(Validate(slice), OkStatus());
  EXPECT_EQ(slice.entries(), kBlock + 3);
  EXPECT_TRUE(Bits(slice.values) == Bits(std::span(array).subspan(2)));
}

TEST(SparseFromNonZero, KeepsEveryPatternButThatOfPlusZero) {
  const std::vector<float> odd = {0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::denorm_min(), 1.0f};
  const SparseUpdate update = SparseFromNonZero(odd);
  EXPECT_EQ(update.positions, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(Bits(update.values), Bits(std::span(odd).subspan(1)));
}

TEST(OwnerBegin, CoversEverythingInOrderAndInBalance) {
  for (const uint64_t owners : {1, 2, 3, 4, 7, 8, 64, 256}) {
    for (const uint64_t length :
         {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{64}, uint64_t{1000}, uint64_t{4097},
          kBlock, 15 * kBlock + 1, 1000 * kBlock + 13, (uint64_t{1} << 31) + 5,
          (uint64_t{1} << 40) + 3}) {
      EXPECT_EQ(OwnerBegin(length, 0, owners), 0u);
      EXPECT_EQ(OwnerBegin(length, owners, owners), length);
      const double fair = static_cast<double>(length) / static_cast<double>(owners);
      for (uint64_t r = 0; r < owners; ++r) {
        const uint64_t begin = OwnerBegin(length, r, owners),
                       end = OwnerBegin(length, r + 1, owners);
        ASSERT_LE(begin, end);
        EXPECT_LE(static_cast<double>(end - begin), fair * 17 / 16 + 1) << length << " " << owners;
        EXPECT_GE(static_cast<double>(end - begin), fair * 15 / 16 - 1) << length << " " << owners;
      }
    }
  }
}

TEST(OwnerBegin, FallsOnBlocksWhereThereAreManyAndOnCacheLinesWhereThereAreSome) {
  for (uint64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(OwnerBegin(1000 * kBlock + 7, r, 8) % kBlock, 0u);
    EXPECT_EQ(OwnerBegin(10 * kBlock + 7, r, 8) % 16, 0u);
  }
}

TEST(CutEvenly, BoundsSegmentsByMemory) {
  EXPECT_EQ(CutEvenly(100, 16, 1600), (std::vector<uint64_t>{0, 100}));
  EXPECT_EQ(CutEvenly(100, 16, 40 * 16), (std::vector<uint64_t>{0, 40, 80, 100}));
  EXPECT_EQ(CutEvenly(3, 16, 1), (std::vector<uint64_t>{0, 1, 2, 3}));  // never less than one
  EXPECT_EQ(CutEvenly(0, 16, 1), (std::vector<uint64_t>{0}));
  // Whole blocks where a segment holds some.
  EXPECT_EQ(CutEvenly(4 * kBlock, 16, 16 * (3 * kBlock - 1)),
            (std::vector<uint64_t>{0, 2 * kBlock, 4 * kBlock}));
  // 2^41 elements in memory for 2^40.
  EXPECT_EQ(CutEvenly(uint64_t{1} << 41, 16, uint64_t{1} << 44),
            (std::vector<uint64_t>{0, uint64_t{1} << 40, uint64_t{1} << 41}));
}

TEST(CutByEntries, TakesAsManyBlocksAsFitAndCutsThoseThatDoNot) {
  constexpr uint64_t kMemory = 100 * kBytesPerSparseEntry;
  const std::vector<uint64_t> entries = {40, 60, 1, 0, 99, 1};
  EXPECT_EQ(CutByEntries(6 * kBlock, entries, 2, 0, kMemory),
            (std::vector<uint64_t>{0, 2 * kBlock, 5 * kBlock, 6 * kBlock}));
  // 101 entries in one block: pieces of 50 elements, of which two trainers may hold 100 entries.
  const auto borders = CutByEntries(kBlock + 7, std::vector<uint64_t>{101, 3}, 2, 0, kMemory);
  EXPECT_EQ(borders[1], 50u);
  EXPECT_EQ(borders[borders.size() - 2], kBlock);
  EXPECT_EQ(borders.back(), kBlock + 7);
  // The dense sum may need more than the entries.
  EXPECT_EQ(CutByEntries(2 * kBlock, std::vector<uint64_t>{1, 1}, 2, 16, 16 * kBlock),
            (std::vector<uint64_t>{0, kBlock, 2 * kBlock}));
}

TEST(CutFiner, KeepsBordersAndAddsMoreAtBlocks) {
  EXPECT_EQ(CutFiner({0, 10 * kBlock + 5}, 4),
            (std::vector<uint64_t>{0, 3 * kBlock, 6 * kBlock, 9 * kBlock, 10 * kBlock + 5}));
  EXPECT_EQ(CutFiner({0, kBlock, 5 * kBlock}, 2),
            (std::vector<uint64_t>{0, kBlock, 4 * kBlock, 5 * kBlock}));
  EXPECT_EQ(CutFiner({0, 7}, 8), (std::vector<uint64_t>{0, 7}));
  EXPECT_EQ(CutFiner({0}, 8), (std::vector<uint64_t>{0}));
}

// Nothing of this is ever allocated: 64-bit counts are what is tested.
TEST(CutByEntries, CountsBeyond32Bits) {
  constexpr uint64_t kBlocks = 5000;                                // 5.2 * 10^9 elements ...
  const std::vector<uint64_t> entries(kBlocks, 64 * (kBlock - 1));  // ... times 64 trainers
  const uint64_t memory = uint64_t{1} << 40;
  const auto borders = CutByEntries(kBlocks * kBlock - 3, entries, 64, 16, memory);
  ASSERT_EQ(borders.back(), kBlocks * kBlock - 3);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const uint64_t blocks = SparseBlocksFor(borders[i + 1] - borders[i]);
    EXPECT_LE(blocks * 64 * (kBlock - 1) * kBytesPerSparseEntry, memory);
    if (i + 2 < borders.size()) {
      EXPECT_GT((blocks + 1) * 64 * (kBlock - 1) * kBytesPerSparseEntry, memory);
    }
  }
}

// A sum of a round with this codec; the sum lies at 5 in theta.
struct SumCoding {
  kernels::KernelTable kernels = *kernels::ChooseKernels("auto");
  std::vector<float> theta;
  AgreedRound round;

  SumCoding(UpdateCodecName codec, size_t elements) : theta(elements + 5) {
    Rng rng(4, {});
    for (float& x : theta) x = rng.Normal() * 0.02f;
    round.codec = {.name = codec};
    round.theta = theta;
  }
  PayloadCoding coding() const { return {kernels, round}; }
};

constexpr UpdateCodecName kCodecs[] = {UpdateCodecName::kFast, UpdateCodecName::kSmall};

TEST(PartialSum, ComesBackBitForBitInItsSmallerForm) {
  for (const UpdateCodecName codec : kCodecs) {
    for (const uint32_t gap : {1, 3, 40, 100'000}) {
      const auto sum = Array(kBlock + 321, gap);
      const SumCoding of_round(codec, sum.size());
      const Bytes bytes = EncodePartialSum(of_round.coding(), 5, sum);
      EXPECT_LE(bytes.size(), 4 * sum.size() + 1);
      if (gap == 40) {
        EXPECT_LT(bytes.size(), sum.size() / 2);
      }
      std::vector<float> back(sum.size(), 7.0f);
      EXPECT_EQ(DecodePartialSum(of_round.coding(), 5, bytes, back), OkStatus());
      EXPECT_TRUE(Bits(back) == Bits(sum));
    }
    const SumCoding nothing(codec, 0);
    EXPECT_TRUE(EncodePartialSum(nothing.coding(), 5, {}).empty());
    EXPECT_EQ(DecodePartialSum(nothing.coding(), 5, {}, {}), OkStatus());
  }
}

// Four trainers' pseudo-gradients, multiples of theta's spacing, of which most share their places.
TEST(PartialSum, OfUpdatesOnThetasGridIsSmallestAgainstTheta) {
  const size_t n = 300'000;
  SumCoding small(UpdateCodecName::kSmall, n), fast(UpdateCodecName::kFast, n);
  std::vector<float> sum(n);
  Rng rng(9, {});
  for (size_t i = 0; i < n; ++i) {
    const float theta = small.theta[i + 5];
    for (int k = 0; k < 4; ++k) {
      const float w = theta - 8e-6f * rng.Normal();
      if (rng.Below(10) == 0) sum[i] += theta - w;
    }
  }
  const size_t small_bytes = EncodePartialSum(small.coding(), 5, sum).size();
  const size_t fast_bytes = EncodePartialSum(fast.coding(), 5, sum).size();
  EXPECT_LT(small_bytes, fast_bytes * 9 / 10) << fast_bytes;
}

TEST(PartialSum, RefusesWhatNoEncoderWrites) {
  for (const UpdateCodecName codec : kCodecs) {
    for (const uint32_t gap : {1, 40}) {
      const SumCoding of_round(codec, 1000);
      const auto decode = [&](ByteView bytes, std::span<float> into) {
        return DecodePartialSum(of_round.coding(), 5, bytes, into);
      };
      const Bytes good = EncodePartialSum(of_round.coding(), 5, Array(1000, gap));
      std::vector<float> sum(1000), other(999);
      EXPECT_TRUE(absl::IsDataLoss(decode(good, other)));
      EXPECT_TRUE(absl::IsDataLoss(decode(good, {})));
      EXPECT_TRUE(absl::IsDataLoss(decode({}, sum)));
      EXPECT_TRUE(absl::IsDataLoss(decode(ByteView(good).first(good.size() - 1), sum)));
      Bytes form = good;
      form.back() = 2;
      EXPECT_TRUE(absl::IsDataLoss(decode(form, sum)));
    }
  }
}

// Trainers 0 and 2 contribute; trainer 0 adds them up.
struct Folding {
  static constexpr size_t kElements = 1000;

  explicit Folding(SparseUpdate own) : mine(std::move(own)) {
    other = SparseFromNonZero(Array(kElements, 3));
    payloads[2] = EncodePayload(coding, {.sparse = &other, .dense = {}}, 0, kElements);
  }
  Status Fold() {
    return FoldPayloads(coding, GroupBySite({}, 3),
                        {payloads, contributes, 0, {.sparse = &mine, .dense = {}}}, 0, sum);
  }

  kernels::KernelTable kernels = *kernels::ChooseKernels("auto");
  PayloadCoding coding{kernels, {}};
  SparseUpdate mine, other;
  std::vector<uint8_t> contributes = {1, 0, 1};
  std::vector<Bytes> payloads = std::vector<Bytes>(3);
  std::vector<float> sum = std::vector<float>(kElements, 7.0f);
};

TEST(FoldPayloads, TakesTheOwnUpdateAsItLies) {
  Folding folding(SparseFromNonZero(Array(Folding::kElements, 2)));
  ASSERT_EQ(folding.Fold(), OkStatus());  // there are no bytes of trainer 0
  std::vector<float> expected(Folding::kElements);
  for (const SparseUpdate* update : {&folding.mine, &folding.other}) {
    folding.kernels.reduce.add_sparse(expected, update->positions, update->values);
  }
  EXPECT_TRUE(Bits(folding.sum) == Bits(expected));
}

TEST(FoldPayloads, NamesTheTrainerWhoseBytesCantBeRead) {
  Folding folding(SparseFromNonZero(Array(Folding::kElements, 2)));
  folding.payloads[2].pop_back();
  const Status status = folding.Fold();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ToStd(status.message()).substr(0, 19), "update of trainer 2");
}

}  // namespace
}  // namespace pulse::loco
