#include "kernels/instruction_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InstructionSet, HoldsOneAfterAnotherAndLetsGo) {
  const std::vector<std::string> all = InstructionSets();
  ASSERT_FALSE(all.empty());
  for (const std::string& name : all) {
    ASSERT_TRUE(HoldInstructionSet(name).ok());
    EXPECT_THAT(InstructionSets(), ElementsAre(name));
  }
  ASSERT_TRUE(HoldInstructionSet("best").ok());
  EXPECT_EQ(InstructionSets(), all);
}

TEST(InstructionSet, ListsWhatThereIsWhenTheNameIsUnknown) {
  const Status status = HoldInstructionSet("AVX9");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'AVX9'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(InstructionSets().front()));
}

}  // namespace
}  // namespace pulse::kernels
