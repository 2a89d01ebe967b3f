// The codecs' device programs for words of every width, those included that no launcher is made
// for, against the host's codec; and with the threads of a team in either order.
#include <gtest/gtest.h>

#include "codec/class_positions.h"
#include "codec/container.h"
#include "codec/device/block_coding.h"
#include "codec/sections.h"
#include "codec/small_delta.h"
#include "core/rng.h"
#include "kernels/kernels.h"
#include "kernels/small_delta/small_delta_cuda_op.h"
#include "kernels/word_steps/word_steps_cuda_op.h"

namespace pulse {
namespace {

using kernels::RunTeamsOnHost;

template <typename Word>
struct Change {
  std::vector<Word> before, after;
  std::vector<uint64_t> starts = {0};
  std::vector<uint32_t> positions;

  ByteView Before() const { return AsBytes(std::span<const Word>(before)); }
  ByteView After() const { return AsBytes(std::span<const Word>(after)); }
};

// tiles: whole tiles of 2048 words stay as they are, so that the map of tiles pays.
template <typename Word>
Change<Word> MakeChange(uint64_t n, uint32_t per_mille, bool any_step, bool tiles) {
  Rng rng(7, {.use = RngUse::kTest, .step = per_mille, .sample = static_cast<uint32_t>(n)});
  Change<Word> change;
  for (uint64_t i = 0; i < n; ++i) {
    const auto word = static_cast<Word>(rng.U32() | uint64_t{rng.U32()} << 32);
    Word step = 0;
    if (rng.Below(1000) < per_mille && !(tiles && i / 2048 % 3 != 0)) {
      step = any_step ? static_cast<Word>(rng.U32() | uint64_t{rng.U32()} << 32)
                      : static_cast<Word>(rng.Below(2) == 0 ? 1 : -1);
    }
    change.before.push_back(word);
    change.after.push_back(static_cast<Word>(word + step));
    if (i > 0 && i % kContainerBlockElements == 0) {
      change.starts.push_back(change.positions.size());
    }
    if (step != 0) change.positions.push_back(static_cast<uint32_t>(i % kContainerBlockElements));
  }
  change.starts.push_back(change.positions.size());
  return change;
}

template <typename Word>
void CheckSmall(DType dtype, const Change<Word>& change, bool backwards) {
  const kernels::KernelTable host = kernels::ChooseKernels("reference").value();
  const WordDelta delta = EncodeSmallDelta(host, change.Before(), change.After(), dtype).value();
  const ContainerView view = ContainerView::Parse(delta.bytes).value();
  const uint64_t blocks = change.starts.size() - 1;
  const kernels::WordLayout layout = LayoutOf(dtype);
  std::vector<uint64_t> scratch(kernels::SmallDeltaScratch(MostEntries(change.starts)) / 2,
                                0xA5A5A5A5A5A5A5A5);
  uint32_t* const words = reinterpret_cast<uint32_t*>(scratch.data());
  std::vector<uint32_t> sizes(blocks), streams(3 * blocks), errors(blocks), entries;
  kernels::SmallDeltaEncodeOp<Word> encode{};
  encode.before = change.before.data();
  encode.after = change.after.data();
  encode.elements = change.before.size();
  encode.layout = {static_cast<uint32_t>(layout.exponent_shift), layout.exponent_mask};
  encode.starts = change.starts.data();
  encode.positions = change.positions.data();
  encode.streams = streams.data();
  encode.sizes = sizes.data();
  RunTeamsOnHost(encode, blocks, words, backwards);
  const std::vector<uint64_t> offsets = OffsetsOf(std::span<const uint32_t>(sizes));
  std::vector<uint32_t> out(offsets.back() / 4 + 3);
  encode.offsets = offsets.data();
  encode.out = out.data();
  std::fill(scratch.begin(), scratch.end(), 0x5A5A5A5A5A5A5A5A);
  RunTeamsOnHost(encode, blocks, words, backwards);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(out.data());
  for (uint64_t b = 0; b < blocks; ++b) {
    const ByteView mine(bytes + offsets[b], sizes[b]);
    ASSERT_TRUE(std::ranges::equal(mine, view.block(b).payload)) << "block " << b;
    entries.push_back(view.block(b).entries);
  }
  std::vector<Word> moved = change.before;
  const kernels::SmallDeltaApplyOp<Word> apply{moved.data(),   moved.size(), encode.layout,
                                               entries.data(), bytes,        offsets.data(),
                                               errors.data()};
  RunTeamsOnHost(apply, blocks, words, backwards);
  EXPECT_EQ(errors, std::vector<uint32_t>(blocks));
  EXPECT_TRUE(moved == change.after);
}

template <typename Word>
void CheckFast(const Change<Word>& change, bool backwards) {
  const kernels::KernelTable host = kernels::ChooseKernels("reference").value();
  const WordDelta delta =
      EncodeWordDelta(host, change.Before(), change.After(), sizeof(Word)).value();
  const ContainerView view = ContainerView::Parse(delta.bytes).value();
  const uint64_t blocks = change.starts.size() - 1;
  std::vector<uint32_t> sizes(2 * blocks), errors(blocks);
  kernels::WordStepsEncodeOp<Word> encode{};
  encode.before = change.before.data();
  encode.after = change.after.data();
  encode.starts = change.starts.data();
  encode.positions = change.positions.data();
  encode.sizes = sizes.data();
  RunTeamsOnHost(encode, blocks, nullptr, backwards);
  std::vector<uint64_t> plain;
  for (uint64_t b = 0; b < blocks; ++b) {
    const auto entries = static_cast<uint32_t>(change.starts[b + 1] - change.starts[b]);
    plain.push_back(sizes[2 * b] + kernels::StepCodeBytes(entries) +
                    uint64_t{sizes[2 * b + 1]} * sizeof(Word));
  }
  const std::vector<uint64_t> offsets = OffsetsOf(std::span<const uint64_t>(plain));
  Bytes out(offsets.back() + 1);
  encode.offsets = offsets.data();
  encode.out = out.data();
  RunTeamsOnHost(encode, blocks, nullptr, backwards);
  // The host's sections, one behind the other, are the device's bytes.
  SectionReader reader;
  for (uint64_t b = 0; b < blocks; ++b) {
    if (plain[b] == 0) continue;
    Bytes sections;
    reader.Start(view.block(b).payload);
    while (sections.size() < plain[b]) {
      const auto section = reader.Read(1, plain[b]);
      ASSERT_TRUE(section.ok()) << section.status();
      sections.insert(sections.end(), section->begin(), section->end());
    }
    ASSERT_EQ(reader.Finish(), OkStatus());
    const ByteView mine(out.data() + offsets[b], plain[b]);
    ASSERT_TRUE(std::ranges::equal(mine, sections)) << "block " << b;
  }
  std::vector<Word> moved = change.before;
  std::vector<uint32_t> positions(change.positions.size() + 1),
      scratch(kernels::GapsScratch(MostEntries(change.starts)));
  const kernels::WordStepsApplyOp<Word> apply{moved.data(),     moved.size(), change.starts.data(),
                                              sizes.data(),     out.data(),   offsets.data(),
                                              positions.data(), errors.data()};
  RunTeamsOnHost(apply, blocks, scratch.data(), backwards);
  EXPECT_EQ(errors, std::vector<uint32_t>(blocks));
  EXPECT_TRUE(moved == change.after);
}

template <typename Word>
void CheckWords(DType dtype) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{2049}, uint64_t{70'000}}) {
    for (const uint32_t per_mille : {0u, 20u, 980u, 1000u}) {
      for (const bool any_step : {false, true}) {
        for (const bool tiles : {false, true}) {
          SCOPED_TRACE(testing::Message() << NameOf(dtype) << " " << n << " " << per_mille << " "
                                          << any_step << " " << tiles);
          const auto change = MakeChange<Word>(n, per_mille, any_step, tiles);
          CheckSmall(dtype, change, any_step);
          CheckSmall(dtype, change, !any_step);
          CheckFast(change, any_step);
          CheckFast(change, !any_step);
        }
      }
    }
  }
}

TEST(TeamPrograms, CodeWordsOfEveryWidthAsTheHostDoes) {
  CheckWords<uint8_t>(DType::kF8E4M3);
  CheckWords<uint8_t>(DType::kU8);
  CheckWords<uint16_t>(DType::kBF16);
  CheckWords<uint32_t>(DType::kF32);
  CheckWords<uint64_t>(DType::kF64);
}

}  // namespace
}  // namespace pulse
