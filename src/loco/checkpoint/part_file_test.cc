#include "loco/checkpoint/part_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "store/fault_injecting_filesystem.h"
#include "store/temporary_folder.h"

namespace pulse::loco {
namespace {

class PartFile : public testing::Test {
 protected:
  static State StateOf(ElementRange range) {
    State state = State::Zero(Mode::kPulseLoco, range.length());
    float next = static_cast<float>(range.begin);
    for (auto* array : {&state.theta, &state.m, &state.v, &state.residual, &state.outer_momentum}) {
      std::iota(array->begin(), array->end(), next);
      next += 0x1p20f;
    }
    state.round = 12;
    state.step = 95;
    return state;
  }
  static void ExpectEqual(const State& a, const State& b) {
    EXPECT_EQ(a.theta, b.theta);
    EXPECT_EQ(a.m, b.m);
    EXPECT_EQ(a.v, b.v);
    EXPECT_EQ(a.residual, b.residual);
    EXPECT_EQ(a.outer_momentum, b.outer_momentum);
    EXPECT_EQ(a.round, b.round);
    EXPECT_EQ(a.step, b.step);
  }

  TemporaryFolder folder_{TemporaryFolder::Where::kMemory};
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
};

ElementRange Shard(uint64_t elements, uint32_t shards, uint32_t shard) {
  return {elements * shard / shards, elements * (shard + 1) / shards};
}

TEST_F(PartFile, ComesBackAsItWas) {
  const ElementRange range = {0, 999};
  const PartHeader header = {{3, 0, 1}, range, 12, 95};
  const auto seal = WritePart(*fs_, folder_.path(), header, StateOf(range));
  ASSERT_TRUE(seal.ok()) << seal.status();
  State read = State::Zero(Mode::kPulseLoco, range.length());
  const auto found = ReadPart(*fs_, folder_.path(), header.id, *seal, range, read);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, range);
  ExpectEqual(read, StateOf(range));
}

// Pieces of the file and borders of the ranges fall together in every way.
TEST_F(PartFile, FillsAnyRangeFromAnyNumberOfShards) {
  constexpr uint64_t kElements = 1037;
  for (const uint32_t before : {1u, 2u, 3u, 5u, 70u}) {
    std::vector<PartSeal> seals;
    for (uint32_t shard = 0; shard < before; ++shard) {
      const ElementRange range = Shard(kElements, before, shard);
      const auto seal =
          WritePart(*fs_, folder_.path(), {{0, shard, before}, range, 12, 95}, StateOf(range));
      ASSERT_TRUE(seal.ok()) << seal.status();
      seals.push_back(*seal);
    }
    for (const uint32_t after : {1u, 2u, 4u}) {
      for (uint32_t shard = 0; shard < after; ++shard) {
        const ElementRange range = Shard(kElements, after, shard);
        State read = State::Zero(Mode::kPulseLoco, range.length());
        for (uint32_t from = 0; from < before; ++from) {
          const auto found =
              ReadPart(*fs_, folder_.path(), {0, from, before}, seals[from], range, read);
          ASSERT_TRUE(found.ok()) << found.status();
          EXPECT_EQ(*found, Shard(kElements, before, from));
        }
        State expected = State::Zero(Mode::kPulseLoco, range.length());
        const State whole = StateOf({0, kElements});
        const auto cut = [&](const std::vector<float>& from, std::vector<float>& to) {
          std::copy(from.begin() + static_cast<ptrdiff_t>(range.begin),
                    from.begin() + static_cast<ptrdiff_t>(range.end), to.begin());
        };
        if (before == 1) {
          cut(whole.theta, expected.theta);
          cut(whole.residual, expected.residual);
          EXPECT_EQ(read.theta, expected.theta);
          EXPECT_EQ(read.residual, expected.residual);
        }
        EXPECT_EQ(read.theta.empty(), range.length() == 0);
        for (uint64_t i = 0; i < range.length(); ++i) {
          ASSERT_EQ(read.theta[i], static_cast<float>(range.begin + i));
        }
      }
    }
  }
}

TEST_F(PartFile, TellsWhoHasNothingOfItItsStep) {
  const ElementRange range = {0, 999}, none = {999, 999};
  const PartHeader header = {{0, 0, 1}, range, 12, 95};
  const auto seal = WritePart(*fs_, folder_.path(), header, StateOf(range));
  ASSERT_TRUE(seal.ok()) << seal.status();
  State read = State::Zero(Mode::kPulseLoco, 0);
  const auto found = ReadPart(*fs_, folder_.path(), header.id, *seal, none, read);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, range);
  EXPECT_EQ(read.step, 95u);
  EXPECT_EQ(read.round, 12u);
}

TEST_F(PartFile, IsRefusedWithAnyByteChanged) {
  const ElementRange range = {0, 40};
  const PartHeader header = {{0, 0, 1}, range, 1, 8};
  const auto seal = WritePart(*fs_, folder_.path(), header, StateOf(range));
  ASSERT_TRUE(seal.ok());
  const std::string path = fmt::format("{}/{}", folder_.path(), header.id.FileName());
  const auto bytes = ReadFile(*fs_, path, 1 << 20);
  ASSERT_TRUE(bytes.ok());
  for (size_t at = 0; at < bytes->size(); ++at) {
    Bytes damaged = *bytes;
    damaged[at] ^= 0x10;
    ASSERT_TRUE(fs_->Remove(path).ok());
    const auto file = fs_->Create(path);
    ASSERT_TRUE(file.ok() && (*file)->Append(damaged).ok() && (*file)->Close().ok());
    State read = State::Zero(Mode::kPulseLoco, range.length());
    const Status status = ReadPart(*fs_, folder_.path(), header.id, *seal, range, read).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << "byte " << at << ": " << status;
  }
}

TEST_F(PartFile, OfAnotherModeIsRefused) {
  const ElementRange range = {0, 8};
  const PartHeader header = {{0, 0, 1}, range, 1, 8};
  const auto seal = WritePart(*fs_, folder_.path(), header, StateOf(range));
  ASSERT_TRUE(seal.ok());
  State diloco = State::Zero(Mode::kDiloco, range.length());
  EXPECT_TRUE(
      absl::IsDataLoss(ReadPart(*fs_, folder_.path(), header.id, *seal, range, diloco).status()));
}

// Whatever fails, the part before stays whole until the new one is.
TEST_F(PartFile, IsTheOldOrTheNewOneWhereverWritingFails) {
  const ElementRange range = {0, 40};
  const PartHeader header = {{0, 0, 1}, range, 1, 8};
  State next = StateOf(range);
  next.theta[7] = -1;
  const auto new_seal = WritePart(*fs_, folder_.path() + "/new", header, next);
  ASSERT_TRUE(new_seal.ok());
  VirtualClock clock;
  const uint64_t operations = ForEachFault(
      clock, {Fault::FailBefore, Fault::KillBefore, Fault::KillAfter},
      [&](FaultInjector& injector) {
        const auto old_seal = WritePart(*fs_, folder_.path(), header, StateOf(range));
        ASSERT_TRUE(old_seal.ok());
        const auto faulty = MakeFaultInjectingFilesystem(*fs_, injector);
        StatusOr<PartSeal> seal = Internal("never returned");
        injector.Survives([&] { seal = WritePart(*faulty, folder_.path(), header, next); });
        const auto holds = [&](const PartSeal& which) {
          State read = State::Zero(Mode::kPulseLoco, range.length());
          return ReadPart(*fs_, folder_.path(), header.id, which, range, read).ok();
        };
        EXPECT_NE(holds(*old_seal), holds(*new_seal)) << injector.Plan() << injector.Log();
        if (seal.ok()) {
          EXPECT_TRUE(holds(*new_seal));
        }
      });
  EXPECT_GT(operations, 10u);
}

}  // namespace
}  // namespace pulse::loco
