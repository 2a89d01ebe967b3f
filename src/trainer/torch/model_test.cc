#include "trainer/torch/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pulse {
namespace {

TEST(ModelSchema, IsTheModelThatTheHeaderPromises) {
  const auto schema = MakeModelSchema({});
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_EQ(schema->elements(), 417'536u);
  uint64_t norms = 0;
  for (const TensorSpec& spec : schema->tensors()) {
    EXPECT_EQ(spec.dtype == DType::kF32, spec.name.ends_with("norm.weight")) << spec.name;
    if (spec.dtype == DType::kF32) norms += spec.elements();
  }
  EXPECT_EQ(norms, 5u * 128);
}

TEST(ModelSchema, RefusesShapesThatAreNoModel) {
  EXPECT_EQ(MakeModelSchema({.layers = 0}).status().message(),
            "layers, width and heads must be above 0; they are 0, 128 and 4");
  EXPECT_EQ(MakeModelSchema({.width = 130}).status().message(),
            "width 130 is no multiple of heads 4");
}

TEST(InitializeWeights, SetsNormsToOneAndTheRestToSmallNormals) {
  const auto schema = *MakeModelSchema({.layers = 1, .width = 32, .heads = 2});
  std::vector<float> weights(schema.elements(), 7), other(schema.elements());
  InitializeWeights(schema, 5, weights);
  InitializeWeights(schema, 6, other);
  EXPECT_NE(weights, other);
  InitializeWeights(schema, 5, other);
  EXPECT_EQ(weights, other);
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const TensorSpec& spec = schema.tensors()[i];
    double squares = 0;
    for (uint64_t at = schema.offset(i); at < schema.offset(i + 1); ++at) {
      if (spec.dtype == DType::kF32) {
        EXPECT_EQ(weights[at], 1.0f) << spec.name;
      }
      squares += static_cast<double>(weights[at]) * weights[at];
    }
    const double deviation = std::sqrt(squares / static_cast<double>(spec.elements()));
    if (spec.dtype == DType::kBF16) {
      EXPECT_NEAR(deviation, 0.02, 0.002) << spec.name;
    }
  }
}

}  // namespace
}  // namespace pulse
