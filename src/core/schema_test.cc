#include "core/schema.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(ModelSchema, SortsByNameAndLaysTensorsOutInThatOrder) {
  const auto schema =
      ModelSchema::Make({{"b", DType::kBF16, {2, 3}}, {"a", DType::kF32, {}}}, {{"head", "b"}});
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->tensors()[0].name, "a");
  EXPECT_EQ(schema->offset(1), 1u);
  EXPECT_EQ(schema->elements(), 7u);
  EXPECT_EQ(schema->bytes(), 16u);
  EXPECT_EQ(*schema->Find("b"), 1u);
  EXPECT_EQ(schema->Find("head").status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelSchema, AnEmptyTensorHasNoElementsWhateverItsOtherExtents) {
  const auto schema = ModelSchema::Make({{"e", DType::kF32, {0, uint64_t{1} << 40}}});
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->elements(), 0u);
}

TEST(ModelSchema, RefusesWhatCanNotBeAModel) {
  const auto message = [](std::vector<TensorSpec> tensors,
                          std::map<std::string, std::string> aliases = {}) {
    return std::string(
        ModelSchema::Make(std::move(tensors), std::move(aliases)).status().message());
  };
  EXPECT_EQ(message({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}),
            "tensor \"a\" appears twice");
  EXPECT_EQ(message({{"", DType::kU8, {1}}}), "a tensor has an empty name");
  EXPECT_EQ(message({{"a\nb", DType::kU8, {1}}}),
            "a tensor's name has a control character (code 10)");
  EXPECT_EQ(message({{"a", DType::kF64, {uint64_t{1} << 40, uint64_t{1} << 30}}}),
            "tensor \"a\": shape [1099511627776,1073741824] is too large");
  EXPECT_EQ(message({{"a", DType::kU8, {1}}}, {{"x", "y"}}),
            "alias \"x\" names \"y\", which is no tensor");
  EXPECT_EQ(message({{"a", DType::kU8, {1}}}, {{"a", "a"}}), "\"a\" is both a tensor and an alias");
}

TEST(RequireSameSchema, NamesTheFirstDifference) {
  const auto a = *ModelSchema::Make({{"w", DType::kBF16, {2, 3}}});
  const auto b = *ModelSchema::Make({{"w", DType::kBF16, {3, 2}}});
  const auto c = *ModelSchema::Make({{"v", DType::kBF16, {2, 3}}});
  EXPECT_TRUE(RequireSameSchema(a, "A", a, "B").ok());
  EXPECT_EQ(RequireSameSchema(a, "A", b, "B").message(),
            "tensor \"w\" is BF16 [2,3] in A but BF16 [3,2] in B");
  EXPECT_EQ(RequireSameSchema(a, "A", c, "B").message(), "tensor \"w\" is in A but not in B");
}

}  // namespace
}  // namespace pulse
