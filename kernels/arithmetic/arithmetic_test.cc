#include "kernels/arithmetic/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#include <string>
#include <thread>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace pulse::kernels {
namespace {

using ::testing::HasSubstr;

TEST(Canonical, GivesEveryNaNTheSameBits) {
  for (const uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC00000u}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(Canonical(std::bit_cast<float>(bits))), kCanonicalNaN);
  }
}

TEST(Canonical, LeavesEverythingElseAlone) {
  for (const uint32_t bits :
       {0u, 0x80000000u, 1u, 0x807FFFFFu, 0x3F800000u, 0x7F800000u, 0xFF800000u}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(Canonical(std::bit_cast<float>(bits))), bits);
  }
}

TEST(CheckArithmetic, AcceptsAProcessThatNobodyTouched) {
  EXPECT_EQ(CheckArithmetic(), OkStatus());
}

TEST(CheckArithmetic, RefusesEveryRoundingModeButToNearest) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const Status status = CheckArithmetic();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("nearest even"));
  }
}

#ifdef __SSE2__
TEST(CheckArithmetic, RefusesAThreadThatFlushesDenormals) {
  const uint32_t flush_to_zero = 0x8000, denormals_are_zero = 0x0040;  // bits of MXCSR
  for (const uint32_t bit : {flush_to_zero, denormals_are_zero}) {
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(before | bit);
    const Status here = CheckArithmetic();
    Status in_new_thread;
    std::thread([&] { in_new_thread = CheckArithmetic(); }).join();
    _mm_setcsr(before);
    EXPECT_EQ(here.code(), absl::StatusCode::kFailedPrecondition) << bit;
    EXPECT_THAT(std::string(here.message()), HasSubstr("flushes denormal"));
    EXPECT_EQ(in_new_thread, here);
  }
}
#endif

}  // namespace
}  // namespace pulse::kernels
