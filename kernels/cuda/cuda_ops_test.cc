// The CUDA bodies' per-thread code, run on the host, against the references: everything of them but
// CUDA's indices, scan and look-back, which gpu_kernels_test.cc covers on a device.
#include <gtest/gtest.h>

#include <functional>

#include "core/sparse_update.h"
#include "kernels/adamw/adamw_cuda_op.h"
#include "kernels/adamw_view/adamw_view_cuda_op.h"
#include "kernels/apply/apply_cuda_op.h"
#include "kernels/cast_view/cast_view_cuda_op.h"
#include "kernels/class_rank/class_rank_cuda_op.h"
#include "kernels/class_rank/class_rank_math.h"
#include "kernels/cuda/on_host.h"
#include "kernels/diff/diff_cuda_op.h"
#include "kernels/gate/gate_cuda_op.h"
#include "kernels/kernels.h"
#include "kernels/outer_step/outer_step_cuda_op.h"
#include "kernels/reduce/reduce_cuda_op.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

const KernelTable& Reference() {
  static const KernelTable table = ChooseKernels("reference").value();
  return table;
}

SparseUpdate EmptyUpdate(size_t elements) {
  SparseUpdate update;
  update.elements = elements;
  return update;
}

// Packs of 4 and single elements, in grids of every size.
template <typename Op>
void RunBothWidths(size_t n, const std::function<Op()>& fresh, const std::function<void()>& check) {
  for (const bool packed : {true, false}) {
    SCOPED_TRACE(testing::Message() << n << (packed ? " in packs" : " one by one"));
    const Op op = fresh();
    if (packed) {
      RunElementsOnHost<4>(op, PlanElements(n, 4, 32, 2));
    } else {
      RunElementsOnHost<1>(op, PlanElements(n, 1, 32, 2));
    }
    check();
  }
}

TEST(CudaOps, CastGivesTheBitsOfTheReference) {
  for (const size_t n : kAwkwardSizes) {
    Fenced<float> in(AwkwardFloats(n, 1));
    Fenced<uint16_t> out(n);
    std::vector<uint16_t> expected(n);
    Reference().cast_to_bf16(in.span(), expected);
    RunBothWidths<CastToBF16Op>(
        n,
        [&] {
          return CastToBF16Op{in.data(), out.data()};
        },
        [&] {
          EXPECT_EQ(Copy(out.span()), expected);
          EXPECT_TRUE(out.FenceIsIntact());
        });
  }
}

TEST(CudaOps, OuterStepGivesTheBitsOfTheReference) {
  const OuterScalars scalars{0.7f, 0.9f, 3};
  for (const size_t n : kAwkwardSizes) {
    const std::vector<float> sum = AwkwardFloats(n, 2);
    std::vector<float> b, theta, b_expected = AwkwardFloats(n, 3), expected = AwkwardFloats(n, 4);
    Reference().outer_step(scalars, sum, b_expected, expected);
    RunBothWidths<OuterStepOp>(
        n,
        [&] {
          b = AwkwardFloats(n, 3);
          theta = AwkwardFloats(n, 4);
          return OuterStepOp{scalars, sum.data(), b.data(), theta.data()};
        },
        [&] {
          ExpectSameBits(b, b_expected, "momentum");
          ExpectSameBits(theta, expected, "theta");
        });
  }
}

TEST(CudaOps, SumsGiveTheBitsOfTheReference) {
  for (const size_t n : kAwkwardSizes) {
    const std::vector<float> addend = AwkwardFloats(n, 5);
    std::vector<float> sum, added = AwkwardFloats(n, 6), mean = AwkwardFloats(n, 6);
    Reference().reduce.add_dense(added, addend);
    Reference().reduce.mean(mean, 3);
    RunBothWidths<AddDenseOp>(
        n,
        [&] {
          sum = AwkwardFloats(n, 6);
          return AddDenseOp{sum.data(), addend.data()};
        },
        [&] { ExpectSameBits(sum, added, "sum"); });
    RunBothWidths<MeanOp>(
        n,
        [&] {
          sum = AwkwardFloats(n, 6);
          return MeanOp{sum.data(), 3};
        },
        [&] { ExpectSameBits(sum, mean, "mean"); });
  }
}

TEST(CudaOps, AdamWGivesTheBitsOfTheReference) {
  const AdamWScalars scalars = AdamWScalars::At({.weight_decay = 0.1}, 3);
  for (const size_t n : kAwkwardSizes) {
    const std::vector<float> g = AwkwardFloats(n, 10);
    std::vector<float> w, m, v, w1 = AwkwardFloats(n, 7), m1 = AwkwardFloats(n, 8),
                                v1 = AwkwardFloats(n, 9);
    Reference().adamw(scalars, w1, m1, v1, g);
    RunBothWidths<AdamWOp>(
        n,
        [&] {
          w = AwkwardFloats(n, 7);
          m = AwkwardFloats(n, 8);
          v = AwkwardFloats(n, 9);
          return AdamWOp{scalars, w.data(), m.data(), v.data(), g.data()};
        },
        [&] {
          ExpectSameBits(w, w1, "w");
          ExpectSameBits(m, m1, "m");
          ExpectSameBits(v, v1, "v");
        });
  }
}

// The sizes of compactions: around tiles, and over the edge of a block of a sparse update.
std::vector<size_t> CompactSizes() {
  std::vector<size_t> sizes(kAwkwardSizes.begin(), kAwkwardSizes.end());
  for (const size_t n :
       {size_t{kTileElements} - 1, size_t{kTileElements} + 1, size_t{kSparseBlockElements} - 3,
        size_t{kSparseBlockElements}, size_t{2 * kSparseBlockElements} + 4099}) {
    sizes.push_back(n);
  }
  return sizes;
}

template <int N, typename Body>
std::vector<uint64_t> Compacted(const Body& body, size_t n) {
  std::vector<uint64_t> starts(SparseBlocksFor(n) + 1, 99);
  RunCompactOnHost<N>(body, n, starts.data());
  return starts;
}

// Positions of words of `before` that differ in `after`, block by block, by the reference.
template <typename Word>
SparseUpdate ReferenceDiff(std::span<const Word> before, std::span<const Word> after) {
  SparseUpdate update = EmptyUpdate(before.size());
  std::vector<uint32_t> positions(kSparseBlockElements);
  for (size_t at = 0; at < before.size(); at += kSparseBlockElements) {
    const size_t n = std::min<size_t>(kSparseBlockElements, before.size() - at);
    const size_t count =
        Reference().diff(AsBytes(before.subspan(at, n)), AsBytes(after.subspan(at, n)),
                         sizeof(Word), positions.data());
    update.positions.insert(update.positions.end(), positions.begin(),
                            positions.begin() + static_cast<ptrdiff_t>(count));
    update.starts.push_back(update.positions.size());
  }
  return update;
}

template <typename Word, int N>
void ExpectDiffOfReference() {
  for (const size_t n : CompactSizes()) {
    Rng rng(7, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(n)});
    std::vector<Word> before(n), after;
    for (Word& word : before) word = static_cast<Word>(rng.U32());
    after = before;
    for (Word& word : after) word = static_cast<Word>(word ^ (rng.Below(3) == 0 ? 0x80 : 0));
    const SparseUpdate expected = ReferenceDiff<Word>(before, after);
    std::vector<uint32_t> positions(n);
    const auto starts =
        Compacted<N>(DiffOp<Word>{before.data(), after.data(), positions.data()}, n);
    EXPECT_EQ(starts, expected.starts) << n;
    positions.resize(starts.back());
    EXPECT_TRUE(positions == expected.positions) << n;
  }
}

TEST(CudaOps, DiffGivesThePositionsOfTheReference) {
  ExpectDiffOfReference<uint16_t, DiffOp<uint16_t>::kPack>();
  ExpectDiffOfReference<uint32_t, DiffOp<uint32_t>::kPack>();
  ExpectDiffOfReference<uint16_t, 1>();
}

template <int N>
void ExpectGateOfReference(GateView view, size_t n) {
  const std::vector<float> theta = AwkwardFloats(n, 11), w = AwkwardFloats(n, 12);
  std::vector<float> e = AwkwardFloats(n, 13), e_expected = e;
  SparseUpdate expected = EmptyUpdate(n), actual = EmptyUpdate(n);
  std::vector<uint32_t> positions(kSparseBlockElements);
  std::vector<float> values(kSparseBlockElements);
  for (size_t at = 0; at < n; at += kSparseBlockElements) {
    const size_t size = std::min<size_t>(kSparseBlockElements, n - at);
    const auto count = static_cast<ptrdiff_t>(
        Reference().gate(view, std::span(theta).subspan(at, size), std::span(w).subspan(at, size),
                         std::span(e_expected).subspan(at, size), positions.data(), values.data()));
    expected.positions.insert(expected.positions.end(), positions.begin(),
                              positions.begin() + count);
    expected.values.insert(expected.values.end(), values.begin(), values.begin() + count);
    expected.starts.push_back(expected.positions.size());
  }
  actual.positions.resize(n);
  actual.values.resize(n);
  const uint64_t end = n;
  const auto of_run = static_cast<uint8_t>(view == GateView::kOpen ? GateView::kBF16 : view);
  const GateRunsOp op{
      {&end, &of_run, 1}, 0,        view == GateView::kOpen, GateRunsOp::kExact,  theta.data(),
      w.data(),           e.data(), actual.positions.data(), actual.values.data()};
  actual.starts = Compacted<N>(op, n);
  ASSERT_EQ(actual.starts, expected.starts) << n;
  actual.positions.resize(actual.starts.back());
  actual.values.resize(actual.starts.back());
  EXPECT_TRUE(actual.positions == expected.positions) << n;
  ExpectSameBits(actual.values, expected.values, "values");
  ExpectSameBits(e, e_expected, "residual");
  EXPECT_EQ(Validate(actual), OkStatus());
}

TEST(CudaOps, GateGivesTheSparseUpdateAndResidualOfTheReference) {
  for (const size_t n : CompactSizes()) {
    for (const GateView view : {GateView::kBF16, GateView::kF32, GateView::kOpen}) {
      ExpectGateOfReference<4>(view, n);
    }
    ExpectGateOfReference<1>(GateView::kBF16, n);
  }
}

TEST(CudaOps, AdamWWithViewIsTheStepThenTheCastThenTheDiff) {
  const AdamWScalars scalars = AdamWScalars::At({.learning_rate = 1e-3}, 1);
  for (const size_t n : CompactSizes()) {
    const std::vector<float> g = AwkwardFloats(n, 14);
    std::vector<float> w = AwkwardFloats(n, 15), m(n), v(n), w1 = w, m1 = m, v1 = v;
    std::vector<uint16_t> view(n), before(n), after(n);
    Reference().cast_to_bf16(w, before);
    Reference().adamw(scalars, w1, m1, v1, g);
    Reference().cast_to_bf16(w1, after);
    const SparseUpdate expected = ReferenceDiff<uint16_t>(before, after);
    std::vector<uint32_t> positions(n);
    const AdamWViewOp op{scalars,  w.data(),    m.data(),        v.data(),
                         g.data(), view.data(), positions.data()};
    EXPECT_EQ(Compacted<4>(op, n), expected.starts) << n;
    positions.resize(expected.positions.size());
    EXPECT_TRUE(positions == expected.positions) << n;
    EXPECT_TRUE(view == after) << n;
    ExpectSameBits(w, w1, "w");
    ExpectSameBits(m, m1, "m");
    ExpectSameBits(v, v1, "v");
  }
}

// About one position in `one_in`, over more than one block.
SparseUpdate RandomUpdate(size_t n, uint32_t one_in) {
  Rng rng(8, {.use = RngUse::kTest, .sample = static_cast<uint32_t>(n)});
  SparseUpdate update = EmptyUpdate(n);
  for (size_t i = 0; i < n; ++i) {
    if (i % kSparseBlockElements == 0 && i > 0) update.starts.push_back(update.positions.size());
    if (rng.Below(one_in) == 0) {
      update.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
    }
  }
  if (n > 0) update.starts.push_back(update.positions.size());
  update.values = AwkwardFloats(update.positions.size(), 16);
  return update;
}

TEST(CudaOps, SparseSumGivesTheBitsOfTheReference) {
  for (const size_t n : CompactSizes()) {
    const SparseUpdate update = RandomUpdate(n, 5);
    std::vector<float> sum = AwkwardFloats(n, 17), expected = sum;
    for (size_t b = 0; b < update.blocks(); ++b) {
      const size_t at = b * kSparseBlockElements;
      Reference().reduce.add_sparse(
          std::span(expected).subspan(at, std::min<size_t>(kSparseBlockElements, n - at)),
          update.BlockPositions(b), update.BlockValues(b));
    }
    RunScatterOnHost(AddSparseOp{sum.data(), update.starts.data(), update.positions.data(),
                                 update.values.data()},
                     update.blocks());
    ExpectSameBits(sum, expected, "sum");
  }
}

template <typename Word>
void ExpectApplyOfReference() {
  for (const size_t n : CompactSizes()) {
    const SparseUpdate update = RandomUpdate(n, 7);
    Rng rng(9, {.use = RngUse::kTest});
    std::vector<Word> words(n), steps(update.entries());
    for (Word& word : words) word = static_cast<Word>(rng.U32());
    for (Word& step : steps) step = static_cast<Word>(rng.U32());
    std::vector<Word> expected = words;
    for (size_t b = 0; b < update.blocks(); ++b) {
      const size_t at = b * kSparseBlockElements;
      const std::span<Word> block =
          std::span(expected).subspan(at, std::min<size_t>(kSparseBlockElements, n - at));
      Reference().apply({reinterpret_cast<uint8_t*>(block.data()), block.size_bytes()},
                        sizeof(Word), update.BlockPositions(b),
                        AsBytes(std::span<const Word>(steps).subspan(
                            update.starts[b], update.starts[b + 1] - update.starts[b])));
    }
    RunScatterOnHost(
        ApplyOp<Word>{words.data(), update.starts.data(), update.positions.data(), steps.data()},
        update.blocks());
    EXPECT_TRUE(words == expected) << n;
  }
}

TEST(CudaOps, ApplyGivesTheWordsOfTheReference) {
  ExpectApplyOfReference<uint16_t>();
  ExpectApplyOfReference<uint32_t>();
}

TEST(CudaOps, ClassRanksAreThoseOfTheReferenceAndLeadBack) {
  for (const size_t n : CompactSizes()) {
    if (n == 0) continue;
    const std::vector<float> theta = AwkwardFloats(n, 18);
    const SparseUpdate update = RandomUpdate(n, 6);
    const size_t blocks = update.blocks();
    for (const bool backwards : {false, true}) {
      std::vector<uint32_t> ranks(n), by_class(n), sizes(blocks * kTeamClasses),
          scratch(kClassRankScratch, 0xA5A5A5A5), positions(update.positions.size());
      RunTeamsOnHost(ClassRankOp{theta.data(), n, update.starts.data(), update.positions.data(),
                                 ranks.data(), by_class.data(), sizes.data()},
                     blocks, scratch.data(), backwards);
      std::vector<uint32_t> of_class(blocks * kTeamClasses);
      for (size_t b = 0; b < blocks; ++b) {
        const size_t at = b * kSparseBlockElements;
        const auto block =
            std::span(theta).subspan(at, std::min<size_t>(kSparseBlockElements, n - at));
        const ClassRankBody& reference = Reference().class_rank;
        std::vector<ClassTile> tiles(TilesOf(block.size()));
        std::vector<TileCounts> tile_counts(tiles.size());
        const uint32_t largest =
            reference.classify(AsBytes(block), kFloatLayout, 0, tiles, tile_counts);
        reference.classify(AsBytes(block), kFloatLayout, largest, tiles, tile_counts);
        const auto of_block = update.BlockPositions(b);
        std::vector<uint8_t> classes(of_block.size());
        std::vector<uint32_t> expected(of_block.size());
        reference.rank(tiles, tile_counts, of_block, classes.data(), expected.data());
        const ClassCounts counts = SumOfCounts(tile_counts);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                               ranks.begin() + static_cast<ptrdiff_t>(update.starts[b])))
            << n;
        for (size_t c = 0; c < kRankClasses; ++c) {
          EXPECT_EQ(sizes[b * kTeamClasses + c], counts[c]) << n;
        }
        for (const uint8_t c : classes) ++of_class[b * kTeamClasses + c];
      }
      RunTeamsOnHost(ClassSelectOp{theta.data(), n, update.starts.data(), of_class.data(),
                                   by_class.data(), positions.data()},
                     blocks, scratch.data(), backwards);
      EXPECT_TRUE(positions == update.positions) << n;
    }
  }
}

}  // namespace
}  // namespace pulse::kernels
