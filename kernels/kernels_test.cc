#include "kernels/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <string>

namespace pulse::kernels {
namespace {

using ::testing::HasSubstr;

TEST(ChooseKernels, GivesTheReferenceByName) {
  const StatusOr<KernelTable> table = ChooseKernels("reference");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->name, "reference");
  EXPECT_EQ(table->adamw, AdamWBodies().front().run);
  EXPECT_EQ(table->gate, GateBodies().front().run);
  EXPECT_EQ(table->reduce.name, "reference");
}

TEST(ChooseKernels, GivesTheFastestWhenAskedForAnyOrForSimd) {
  for (const std::string_view name : {"auto", "simd"}) {
    const StatusOr<KernelTable> table = ChooseKernels(name);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->name, "simd");
    EXPECT_EQ(table->adamw, AdamWBodies().back().run);
    EXPECT_EQ(table->apply, ApplyBodies().back().run);
    EXPECT_EQ(table->cast_to_bf16, CastToBF16Bodies().back().run);
    EXPECT_EQ(table->diff, DiffBodies().back().run);
    EXPECT_EQ(table->gate, GateBodies().back().run);
    EXPECT_EQ(table->outer_step, OuterStepBodies().back().run);
    EXPECT_EQ(table->reduce.mean, ReduceBodies().back().mean);
  }
}

TEST(ChooseKernels, ListsWhatThereIsWhenTheNameIsUnknown) {
  const Status status = ChooseKernels("sind").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'sind'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("reference, simd"));
}

TEST(ChooseKernels, RefusesAThreadThatBreaksTheArithmeticContract) {
  std::fesetround(FE_UPWARD);
  const Status status = ChooseKernels("auto").status();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pulse::kernels
