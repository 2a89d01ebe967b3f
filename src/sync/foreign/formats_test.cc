// One suite over all formats and encodings: what is written is read, to the bit or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/unsynced_filesystem.h"
#include "sync/checkpoint.h"
#include "sync/foreign/rebuild.h"
#include "sync/foreign/testing_foreign.h"
#include "sync/foreign/way.h"

namespace pulse {
namespace {

using testing::Bf16Schema;
using ::testing::HasSubstr;
using testing::Mutated;
using testing::PutForeign;
using testing::RandomModel;
using testing::TestModel;

class ForeignFormats : public ::testing::TestWithParam<std::string> {
 protected:
  ForeignFormats()
      : store_(MakeMemoryStore(clock_)), fs_(clock_), choice_(*ChooseForeignFormat(GetParam())) {}

  StatusOr<std::unique_ptr<const ForeignVersion>> Open(uint64_t number) {
    PULSE_ASSIGN_OR_RETURN(const auto marks, choice_.format->List(*store_, "p/", number - 1));
    if (marks.empty() || marks[0].number != number) return NotFound("no version {}", number);
    return choice_.format->Open(*store_, marks[0], {});
  }

  // Over `base`, null for none.
  Status Rebuild(uint64_t number, const TestModel* base, TestModel& out) {
    PULSE_ASSIGN_OR_RETURN(const auto version, Open(number));
    ForeignBase on;
    std::unique_ptr<ModelViewSource> view;
    if (base != nullptr) {
      view = std::make_unique<ModelViewSource>(base->view());
      on = {view.get(), ViewDigest(base->view()), number - 1};
    }
    PULSE_RETURN_IF_ERROR(RebuildForeignVersion(fs_, "/out", *version, on, {}).status());
    PULSE_ASSIGN_OR_RETURN(const auto made, Checkpoint::Open(fs_, "/out"));
    out.schema = made->schema();
    out.tensors.clear();
    for (const ByteView tensor : made->view().tensors) {
      out.tensors.emplace_back(tensor.begin(), tensor.end());
    }
    return OkStatus();
  }

  bool is_trl() const { return choice_.format->name().starts_with("trl"); }

  VirtualClock clock_;
  std::unique_ptr<Store> store_;
  UnsyncedFilesystem fs_;
  ForeignChoice choice_;
};

TEST_P(ForeignFormats, RebuildEveryBitOfAChain) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const std::vector<TestModel> models = [&] {
      std::vector<TestModel> chain = {RandomModel(Bf16Schema(), seed)};
      for (const uint32_t one_in : {500u, 2u, 40'000u}) {
        chain.push_back(Mutated(chain.back(), seed + one_in, one_in));
      }
      chain.push_back(chain.back());  // nothing changed
      return chain;
    }();
    store_ = MakeMemoryStore(clock_);
    TestModel made;
    for (size_t i = 0; i < models.size(); ++i) {
      const TestModel* before = i > 0 ? &models[i - 1] : nullptr;
      ASSERT_EQ(PutForeign(*store_, choice_, "p/", before, models[i], i + 1), OkStatus());
      ASSERT_EQ(Rebuild(i + 1, before, made), OkStatus());
      EXPECT_EQ(made.tensors, models[i].tensors) << "seed " << seed << ", version " << i + 1;
      EXPECT_EQ(made.schema, models[i].schema);
    }
  }
}

TEST_P(ForeignFormats, CarryTheSignOfZeroAndNanPayloads) {
  TestModel before = RandomModel(testing::SchemaOf({{"w", DType::kBF16, {4}}}), 1);
  before.tensors[0] = {0x00, 0x00, 0xC0, 0x7F, 0x80, 0x7F, 0x00, 0x80};
  TestModel after = before;
  after.tensors[0] = {0x00, 0x80, 0xC1, 0x7F, 0x80, 0xFF, 0x00, 0x00};
  ASSERT_EQ(PutForeign(*store_, choice_, "p/", nullptr, before, 1), OkStatus());
  ASSERT_EQ(PutForeign(*store_, choice_, "p/", &before, after, 2), OkStatus());
  TestModel made;
  ASSERT_EQ(Rebuild(2, &before, made), OkStatus());
  EXPECT_EQ(made.tensors, after.tensors);
}

TEST_P(ForeignFormats, RefuseAnotherBase) {
  const TestModel before = RandomModel(Bf16Schema(), 1);
  const TestModel after = Mutated(before, 2, 50);
  ASSERT_EQ(PutForeign(*store_, choice_, "p/", &before, after, 2), OkStatus());
  const TestModel other = Mutated(before, 3, 50);
  TestModel made;
  EXPECT_TRUE(absl::IsFailedPrecondition(Rebuild(2, &other, made)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Rebuild(2, nullptr, made)));
  EXPECT_TRUE(absl::IsNotFound(fs_.Stat("/out").status())) << "nothing is left";
}

TEST_P(ForeignFormats, NameTheTensorThatCanNotBeCarried) {
  const TestModel before =
      RandomModel(testing::SchemaOf({{"a", DType::kBF16, {4}}, {"f", DType::kF32, {4}}}), 1);
  TestModel after = before;
  after.tensors[0][0] ^= 1;
  EXPECT_EQ(PutForeign(*store_, choice_, "p/", &before, after, 2), OkStatus())
      << "what does not change need not be carried";
  after.tensors[1][15] ^= 1;
  const Status put = PutForeign(*store_, choice_, "p/", &before, after, 3);
  if (!is_trl()) {
    EXPECT_EQ(put, OkStatus());
    return;
  }
  EXPECT_TRUE(absl::IsUnimplemented(put));
  EXPECT_THAT(ToStd(put.message()), HasSubstr("\"f\""));
}

TEST_P(ForeignFormats, RefuseTensorsThatAreTooLarge) {
  const TensorSpec largest = {"w", DType::kBF16, {(uint64_t{1} << 31) - 1}};
  const TensorSpec larger = {"w", DType::kBF16, {uint64_t{1} << 31}};
  EXPECT_EQ(choice_.format->CanCarryChange(largest, choice_.encoding), OkStatus());
  EXPECT_EQ(choice_.format->CanCarryChange(larger, choice_.encoding).ok(),
            choice_.encoding == "xor");
}

TEST_P(ForeignFormats, DoNotCountAVersionThatIsNotWhole) {
  const TestModel before = RandomModel(Bf16Schema(), 1);
  ASSERT_EQ(PutForeign(*store_, choice_, "p/", nullptr, before, 1), OkStatus());
  if (is_trl()) return;  // one object is a version
  const OwnedSource junk(Bytes(3));
  ASSERT_TRUE(
      store_->Put("p/weight_v000002/model-00001-of-00001.safetensors", junk, PutCondition::None())
          .ok());
  EXPECT_EQ(choice_.format->List(*store_, "p/", 0)->size(), 1u);
}

TEST_P(ForeignFormats, FindTheWayFromHereOrFromAFullVersion) {
  const TestModel model = RandomModel(Bf16Schema(), 1);
  for (const uint64_t number : {1, 2, 3, 4, 5}) {
    const bool full = number == 1 || number == 4;
    ASSERT_EQ(PutForeign(*store_, choice_, "p/", full ? nullptr : &model, model, number),
              OkStatus());
  }
  const auto way = [&](uint64_t target, std::optional<uint64_t> local) {
    const auto marks = *choice_.format->List(*store_, "p/", local.value_or(0));
    std::vector<uint64_t> numbers;
    const auto steps = FindForeignWay(*choice_.format, *store_, marks, target, local);
    if (!steps.ok()) return numbers;
    for (const ForeignMark& mark : *steps) numbers.push_back(mark.number);
    return numbers;
  };
  EXPECT_EQ(way(3, std::nullopt), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(way(5, std::nullopt), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(way(3, 2), (std::vector<uint64_t>{3}));
  EXPECT_EQ(way(5, 3), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(way(6, 5), (std::vector<uint64_t>{})) << "it is not there";
}

INSTANTIATE_TEST_SUITE_P(All, ForeignFormats,
                         ::testing::Values("trl-v1", "trl-v3:gap_delta", "trl-v3:raw",
                                           "hf-delta-dir:overwrite", "hf-delta-dir:xor"),
                         [](const auto& choice) {
                           std::string name = choice.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

TEST(ForeignFormatNames, AreChosenByNameAndEncoding) {
  EXPECT_EQ(ChooseForeignFormat("trl-v3:raw")->encoding, "raw");
  EXPECT_EQ(ChooseForeignFormat("trl-v3")->encoding, "");
  for (const char* wrong : {"", "trl", "trl-v1:raw", "trl-v3:", "trl-v3:nvcomp_cascaded", "hf"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ChooseForeignFormat(wrong).status())) << wrong;
  }
  EXPECT_EQ(*ForeignPrefix("a/b/"), "a/b/");
  EXPECT_EQ(*ForeignPrefix(""), "");
  EXPECT_TRUE(absl::IsInvalidArgument(ForeignPrefix("../x").status()));
}

}  // namespace
}  // namespace pulse
