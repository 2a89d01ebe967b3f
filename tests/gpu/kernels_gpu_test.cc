// Every CUDA kernel against the CPU's reference, bit for bit.
#include "core/digest.h"
#include "core/sparse_update.h"
#include "gpu_environment.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/adamw_view/adamw_view_cuda.h"
#include "kernels/apply/apply_cuda.h"
#include "kernels/cast_view/cast_view_cuda.h"
#include "kernels/class_rank/class_rank_cuda.h"
#include "kernels/cuda/launch_plan.h"
#include "kernels/diff/diff_cuda.h"
#include "kernels/digest/digest_cuda.h"
#include "kernels/gate/gate_cuda.h"
#include "kernels/kernels.h"
#include "kernels/outer_step/outer_step_cuda.h"
#include "kernels/reduce/reduce_cuda.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

using Floats = std::vector<float>;
using Positions = std::vector<uint32_t>;

const KernelTable& Reference() {
  static const KernelTable table = ChooseKernels("reference").value();
  return table;
}

// Around packs, tiles and blocks; many tiles, so that look-back spans more than one window of 32.
std::vector<size_t> Sizes() {
  std::vector<size_t> sizes(kAwkwardSizes.begin(), kAwkwardSizes.end());
  for (const size_t n :
       {kTileElements - 1, kTileElements, kTileElements + 1, kSparseBlockElements - 3,
        kSparseBlockElements + 1, 5 * kSparseBlockElements + 4099}) {
    sizes.push_back(n);
  }
  return sizes;
}

class KernelsOnGpu : public GpuTest {
 protected:
  // Every size, aligned and one element off.
  template <typename Body>
  void ForEachCase(Body body) {
    for (const size_t n : Sizes()) {
      for (const uint64_t shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << n << " elements, shifted by " << shift);
        body(n, shift);
        if (HasFatalFailure()) return;
      }
    }
  }
  CompactTarget Target(size_t n) {
    return {Room<uint64_t>(SparseBlocksFor(n) + 1), Room<uint32_t>(n),
            Room<uint8_t>(CompactScratchBytes(n))};
  }
  SparseUpdate Taken(size_t n, const CompactTarget& target) {
    SparseUpdate update;
    update.elements = n;
    update.starts = FromDevice<uint64_t>(target.starts);
    update.positions = FromDevice<uint32_t>(target.positions);
    EXPECT_LE(update.starts.back(), n);
    update.positions.resize(std::min<size_t>(update.starts.back(), n));
    return update;
  }
  // Of one run with all elements.
  DeviceCode Gate(GateView view, DeviceSpan<const float> theta, DeviceSpan<const float> w,
                  DeviceSpan<float> residual, const CompactTarget& target,
                  DeviceSpan<float> values) {
    const auto of_run = static_cast<uint8_t>(view == GateView::kOpen ? GateView::kBF16 : view);
    const DeviceViewRuns run{OnDevice(std::vector<uint64_t>{theta.size}).data,
                             OnDevice(std::vector<uint8_t>{of_run}).data, 1};
    const GateRunsOp op{run,        0,      view == GateView::kOpen, GateRunsOp::kExact,
                        theta.data, w.data, residual.data,           target.positions.data,
                        values.data};
    return GateRunsCuda(op, theta.size, target, stream_.get());
  }
};

// Calls body(offset, elements) for each block of a sparse update.
template <typename Body>
void ForEachBlock(size_t n, Body body) {
  for (size_t at = 0; at < n; at += kSparseBlockElements) {
    body(at, std::min<size_t>(kSparseBlockElements, n - at));
  }
}

template <typename Word>
SparseUpdate ReferenceDiff(const std::vector<Word>& before, const std::vector<Word>& after) {
  SparseUpdate update;
  update.elements = before.size();
  ForEachBlock(before.size(), [&](size_t at, size_t n) {
    Positions block(n);
    block.resize(Reference().diff(AsBytes(std::span(before).subspan(at, n)),
                                  AsBytes(std::span(after).subspan(at, n)), sizeof(Word),
                                  block.data()));
    update.positions.insert(update.positions.end(), block.begin(), block.end());
    update.starts.push_back(update.positions.size());
  });
  return update;
}

DeviceSpan<const uint8_t> Raw(auto span) {
  return {reinterpret_cast<const uint8_t*>(span.data), span.size_bytes()};
}

TEST_F(KernelsOnGpu, CastGivesTheBitsOfTheReference) {
  ForEachCase([&](size_t n, uint64_t shift) {
    const Floats in = AwkwardFloats(n, 1);
    std::vector<uint16_t> expected(n);
    Reference().cast_to_bf16(in, expected);
    const auto out = Room<uint16_t>(n, shift);
    ASSERT_EQ(CastToBF16Cuda(OnDevice(in, shift), out, stream_.get()), 0);
    EXPECT_TRUE(FromDevice<uint16_t>(out) == expected);
  });
}

TEST_F(KernelsOnGpu, OuterStepGivesTheBitsOfTheReference) {
  const OuterScalars scalars{0.7f, 0.9f, 3};
  ForEachCase([&](size_t n, uint64_t shift) {
    const Floats sum = AwkwardFloats(n, 2);
    Floats b = AwkwardFloats(n, 3), theta = AwkwardFloats(n, 4);
    const auto b_device = OnDevice(b, shift), theta_device = OnDevice(theta, shift);
    ASSERT_EQ(OuterStepCuda(scalars, OnDevice(sum, shift), b_device, theta_device, stream_.get()),
              0);
    Reference().outer_step(scalars, sum, b, theta);
    ExpectSameBits(FromDevice<float>(b_device), b, "momentum");
    ExpectSameBits(FromDevice<float>(theta_device), theta, "theta");
  });
}

TEST_F(KernelsOnGpu, DenseSumAndMeanGiveTheBitsOfTheReference) {
  ForEachCase([&](size_t n, uint64_t shift) {
    const Floats addend = AwkwardFloats(n, 5);
    Floats sum = AwkwardFloats(n, 6);
    const auto device = OnDevice(sum, shift);
    ASSERT_EQ(AddDenseCuda(device, OnDevice(addend, shift), stream_.get()), 0);
    ASSERT_EQ(MeanCuda(device, 3, stream_.get()), 0);
    Reference().reduce.add_dense(sum, addend);
    Reference().reduce.mean(sum, 3);
    ExpectSameBits(FromDevice<float>(device), sum, "mean");
  });
}

// Division and square root over very many operands: the card's own, correctly rounded or not.
TEST_F(KernelsOnGpu, AdamWGivesTheBitsOfTheReference) {
  const AdamWScalars scalars = AdamWScalars::At({.learning_rate = 1e-3, .weight_decay = 0.1}, 3);
  ForEachCase([&](size_t n, uint64_t shift) {
    const Floats g = AwkwardFloats(n, 10);
    Floats w = AwkwardFloats(n, 7), m = AwkwardFloats(n, 8), v = AwkwardFloats(n, 9);
    const DeviceAdamW arrays{OnDevice(w, shift), OnDevice(m, shift), OnDevice(v, shift),
                             OnDevice(g, shift)};
    ASSERT_EQ(AdamWCuda(scalars, arrays, stream_.get()), 0);
    Reference().adamw(scalars, w, m, v, g);
    ExpectSameBits(FromDevice<float>(arrays.w), w, "w");
    ExpectSameBits(FromDevice<float>(arrays.m), m, "m");
    ExpectSameBits(FromDevice<float>(arrays.v), v, "v");
  });
}

TEST_F(KernelsOnGpu, AdamWWithViewIsTheStepThenTheCastThenTheDiff) {
  const AdamWScalars scalars = AdamWScalars::At({.learning_rate = 1e-3}, 1);
  ForEachCase([&](size_t n, uint64_t shift) {
    const Floats g = AwkwardFloats(n, 14);
    Floats w = AwkwardFloats(n, 15), m(n), v(n);
    std::vector<uint16_t> before(n), after(n);
    Reference().cast_to_bf16(w, before);
    const DeviceAdamW arrays{OnDevice(w, shift), OnDevice(m, shift), OnDevice(v, shift),
                             OnDevice(g, shift)};
    const auto view = Room<uint16_t>(n, shift);
    const CompactTarget target = Target(n);
    ASSERT_EQ(AdamWViewCuda(scalars, arrays, view, target, stream_.get()), 0);
    Reference().adamw(scalars, w, m, v, g);
    Reference().cast_to_bf16(w, after);
    const SparseUpdate expected = ReferenceDiff(before, after), actual = Taken(n, target);
    EXPECT_EQ(actual.starts, expected.starts);
    EXPECT_TRUE(actual.positions == expected.positions);
    EXPECT_TRUE(FromDevice<uint16_t>(view) == after);
    ExpectSameBits(FromDevice<float>(arrays.w), w, "w");
  });
}

TEST_F(KernelsOnGpu, DiffGivesThePositionsOfTheReference) {
  const auto of_words = [&]<typename Word>(Word) {
    ForEachCase([&](size_t n, uint64_t shift) {
      Rng rng(7, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(n)});
      std::vector<Word> before(n), after;
      for (Word& word : before) word = static_cast<Word>(rng.U32());
      after = before;
      for (Word& word : after) word = static_cast<Word>(word ^ (rng.Below(9) == 0 ? 0x80 : 0));
      const CompactTarget target = Target(n);
      ASSERT_EQ(DiffCuda(Raw(OnDevice(before, shift)), Raw(OnDevice(after, shift)), sizeof(Word),
                         target, stream_.get()),
                0);
      const SparseUpdate expected = ReferenceDiff(before, after), actual = Taken(n, target);
      EXPECT_EQ(actual.starts, expected.starts);
      EXPECT_TRUE(actual.positions == expected.positions);
    });
  };
  of_words(uint16_t{});
  of_words(uint32_t{});
}

TEST_F(KernelsOnGpu, GateGivesTheSparseUpdateAndResidualOfTheReference) {
  for (const GateView view : {GateView::kBF16, GateView::kF32, GateView::kOpen}) {
    ForEachCase([&](size_t n, uint64_t shift) {
      const Floats theta = AwkwardFloats(n, 11), w = AwkwardFloats(n, 12);
      Floats e = AwkwardFloats(n, 13);
      const auto e_device = OnDevice(e, shift);
      const CompactTarget target = Target(n);
      const auto values = Room<float>(n);
      ASSERT_EQ(Gate(view, OnDevice(theta, shift), OnDevice(w, shift), e_device, target, values),
                0);
      SparseUpdate expected, actual = Taken(n, target);
      expected.elements = n;
      ForEachBlock(n, [&](size_t at, size_t size) {
        Positions positions(size);
        Floats kept(size);
        const size_t count = Reference().gate(
            view, std::span(theta).subspan(at, size), std::span(w).subspan(at, size),
            std::span(e).subspan(at, size), positions.data(), kept.data());
        positions.resize(count);
        kept.resize(count);
        expected.positions.insert(expected.positions.end(), positions.begin(), positions.end());
        expected.values.insert(expected.values.end(), kept.begin(), kept.end());
        expected.starts.push_back(expected.positions.size());
      });
      ASSERT_EQ(actual.starts, expected.starts);
      EXPECT_TRUE(actual.positions == expected.positions);
      actual.values = FromDevice<float>(values);
      actual.values.resize(actual.positions.size());
      ExpectSameBits(actual.values, expected.values, "values");
      ExpectSameBits(FromDevice<float>(e_device), e, "residual");
      EXPECT_EQ(Validate(actual), OkStatus());
    });
  }
}

// Entries at about one position in five.
SparseUpdate RandomUpdate(size_t n) {
  Rng rng(8, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(n)});
  SparseUpdate update;
  update.elements = n;
  ForEachBlock(n, [&](size_t, size_t size) {
    for (uint32_t i = 0; i < size; ++i) {
      if (rng.Below(5) == 0) update.positions.push_back(i);
    }
    update.starts.push_back(update.positions.size());
  });
  update.values = AwkwardFloats(update.positions.size(), 16);
  return update;
}

TEST_F(KernelsOnGpu, SparseSumsInOrderGiveTheBitsOfTheReference) {
  ForEachCase([&](size_t n, uint64_t shift) {
    const SparseUpdate update = RandomUpdate(n);
    Floats sum = AwkwardFloats(n, 17);
    const auto device = OnDevice(sum, shift);
    const DeviceSparseUpdate on_device{OnDevice(update.starts), OnDevice(update.positions),
                                       OnDevice(update.values)};
    for (int trainer = 0; trainer < 2; ++trainer) {
      ASSERT_EQ(AddSparseCuda(device, on_device, stream_.get()), 0);
      ForEachBlock(n, [&](size_t at, size_t size) {
        const size_t block = at / kSparseBlockElements;
        Reference().reduce.add_sparse(std::span(sum).subspan(at, size),
                                      update.BlockPositions(block), update.BlockValues(block));
      });
    }
    ExpectSameBits(FromDevice<float>(device), sum, "sum");
  });
}

TEST_F(KernelsOnGpu, ApplyGivesTheWordsOfTheReference) {
  const auto of_words = [&]<typename Word>(Word) {
    ForEachCase([&](size_t n, uint64_t shift) {
      const SparseUpdate update = RandomUpdate(n);
      Rng rng(9, {.use = RngUse::kTest});
      std::vector<Word> words(n), steps(update.entries());
      for (Word& word : words) word = static_cast<Word>(rng.U32());
      for (Word& step : steps) step = static_cast<Word>(rng.U32());
      const auto device = OnDevice(words, shift);
      ASSERT_EQ(ApplyCuda({reinterpret_cast<uint8_t*>(device.data), device.size_bytes()},
                          sizeof(Word), OnDevice(update.starts), OnDevice(update.positions),
                          Raw(OnDevice(steps)), stream_.get()),
                0);
      ForEachBlock(n, [&](size_t at, size_t size) {
        const size_t b = at / kSparseBlockElements;
        const std::span<Word> block = std::span(words).subspan(at, size);
        Reference().apply({reinterpret_cast<uint8_t*>(block.data()), block.size_bytes()},
                          sizeof(Word), update.BlockPositions(b),
                          AsBytes(std::span<const Word>(steps).subspan(
                              update.starts[b], update.starts[b + 1] - update.starts[b])));
      });
      EXPECT_TRUE(FromDevice<Word>(device) == words);
    });
  };
  of_words(uint16_t{});
  of_words(uint32_t{});
}

TEST_F(KernelsOnGpu, ClassRanksAreThoseOfTheReferenceAndLeadBack) {
  ForEachCase([&](size_t n, uint64_t shift) {
    if (n == 0) return;
    const Floats theta = AwkwardFloats(n, 18);
    const SparseUpdate update = RandomUpdate(n);
    const uint64_t blocks = update.blocks();
    const auto on_device = OnDevice(theta, shift);
    const auto starts = OnDevice(update.starts);
    const auto ranks = Room<uint32_t>(update.entries()),
               by_class = Room<uint32_t>(update.entries());
    const auto sizes = Room<uint32_t>(blocks * kTeamClasses);
    const auto scratch = Room<uint32_t>(TeamsFor(blocks) * kClassRankScratch);
    ASSERT_EQ(ClassRankCuda({on_device.data, n, starts.data, OnDevice(update.positions).data,
                             ranks.data, by_class.data, sizes.data},
                            blocks, scratch, stream_.get()),
              0);
    Positions expected, of_class(blocks * kTeamClasses);
    ForEachBlock(n, [&](size_t at, size_t size) {
      const size_t b = at / kSparseBlockElements;
      const auto words = std::span(theta).subspan(at, size);
      const ClassRankBody& reference = Reference().class_rank;
      std::vector<ClassTile> tiles(TilesOf(size));
      std::vector<TileCounts> counts(tiles.size());
      const uint32_t largest = reference.classify(AsBytes(words), kFloatLayout, 0, tiles, counts);
      reference.classify(AsBytes(words), kFloatLayout, largest, tiles, counts);
      const auto positions = update.BlockPositions(b);
      std::vector<uint8_t> classes(positions.size());
      Positions block(positions.size());
      reference.rank(tiles, counts, positions, classes.data(), block.data());
      expected.insert(expected.end(), block.begin(), block.end());
      for (const uint8_t c : classes) ++of_class[b * kTeamClasses + c];
    });
    EXPECT_TRUE(FromDevice<uint32_t>(ranks) == expected);
    const auto positions = Room<uint32_t>(update.entries());
    ASSERT_EQ(ClassSelectCuda({on_device.data, n, starts.data, OnDevice(of_class).data,
                               by_class.data, positions.data},
                              blocks, scratch, stream_.get()),
              0);
    EXPECT_TRUE(FromDevice<uint32_t>(positions) == update.positions);
  });
}

TEST_F(KernelsOnGpu, ChunkDigestsAreThoseOfXxhashAtEveryAlignment) {
  for (const size_t size :
       {size_t{0}, size_t{241}, size_t{5000}, kDigestChunkBytes, 3 * kDigestChunkBytes,
        5 * kDigestChunkBytes - 1, 130 * kDigestChunkBytes + 777}) {
    for (const uint64_t shift : {0, 1, 2, 4, 8}) {
      std::vector<uint8_t> bytes(size);
      const size_t chunks = CeilDiv(size, kDigestChunkBytes);
      Rng rng(10, {.use = RngUse::kTest});
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(i % 64 == 0 ? rng.U32() : bytes[i - 1] * 5 + 1);
      }
      const auto digests = Room<uint8_t>(16 * chunks);
      ASSERT_EQ(ChunkDigestsCuda(OnDevice(bytes, shift), digests, stream_.get()), 0);
      std::vector<uint8_t> expected;
      for (size_t c = 0; c < chunks; ++c) {
        const Digest digest =
            DigestOf(ByteView(bytes)
                         .subspan(c * kDigestChunkBytes)
                         .first(std::min(kDigestChunkBytes, size - c * kDigestChunkBytes)));
        expected.insert(expected.end(), digest.bytes.begin(), digest.bytes.end());
      }
      EXPECT_TRUE(FromDevice<uint8_t>(digests) == expected) << size << " at " << shift;
    }
  }
}

TEST_F(KernelsOnGpu, ALaunchThatCannotBeIsRefused) {
  const auto ten = Room<float>(10), nine = Room<float>(9);
  EXPECT_NE(AddDenseCuda(ten, nine, stream_.get()), 0);
  CompactTarget target = Target(10);
  target.scratch.size -= 1;
  EXPECT_NE(Gate(GateView::kBF16, ten, ten, Room<float>(10), target, Room<float>(10)), 0);
}

}  // namespace
}  // namespace pulse::kernels
