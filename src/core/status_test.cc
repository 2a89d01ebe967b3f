#include "core/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pulse {
namespace {

StatusOr<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("{} is odd", x);
  return x / 2;
}

StatusOr<int> Quarter(int x) {
  PULSE_ASSIGN_OR_RETURN(const int half, Half(x));
  PULSE_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(Status, AssignOrReturnPassesValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
}

TEST(Status, AnnotateKeepsTheCodeAndPutsThePlaceFirst) {
  const Status annotated = Annotate(DataLoss("bad digest"), "trainer 3, round 17");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(annotated.message(), "trainer 3, round 17: bad digest");
  EXPECT_TRUE(Annotate(OkStatus(), "anywhere").ok());
}

TEST(Status, ErrnoDecidesTheCode) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "open x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EIO, "read x").message(), "read x: Input/output error");
}

}  // namespace
}  // namespace pulse
