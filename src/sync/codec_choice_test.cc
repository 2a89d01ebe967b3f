#include "sync/codec_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "sync/codec_measurement.h"
#include "sync/testing.h"
#include "sync/testing_follow.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;
using testing::SchemaOf;
using testing::TestKernels;
using testing::TestModel;

// 16 GB of weights: fast encodes and decodes quicker, small is 40 % smaller.
CodecCosts At(double link_bytes_per_s) {
  return {.fast = {.encode_s = 2, .decode_s = 1, .bytes = 150e6},
          .small = {.encode_s = 3, .decode_s = 2, .bytes = 90e6},
          .link_bytes_per_s = link_bytes_per_s};
}

TEST(ChooseCodec, TakesSmallOnASlowLinkAndFastOnAQuickOne) {
  EXPECT_EQ(ChooseCodec(At(10e6)).codec, RangeCodec::kSmall);
  EXPECT_EQ(ChooseCodec(At(1e9)).codec, RangeCodec::kFast);
}

TEST(ChooseCodec, ChangesItsMindWhereBothAreReadyAtTheSameTime) {
  // 2 * 60 MB cross the link in the 2 s that small takes longer at 60 MB/s.
  EXPECT_EQ(ChooseCodec(At(59e6)).codec, RangeCodec::kSmall);
  EXPECT_EQ(ChooseCodec(At(60e6)).codec, RangeCodec::kSmall);
  EXPECT_EQ(ChooseCodec(At(61e6)).codec, RangeCodec::kFast);
}

TEST(ChooseCodec, SaysWhy) {
  EXPECT_EQ(ChooseCodec(At(1e9)).reason,
            "auto: fast, ready after 5.18 s in small and 3.3 s in fast at 1e+03 MB/s");
  EXPECT_THAT(ChooseCodec(At(0)).reason, HasSubstr("link is not measured"));
}

TEST(ChooseCodec, TakesSmallWhileAnythingIsUnmeasured) {
  EXPECT_EQ(ChooseCodec({}).codec, RangeCodec::kSmall);
  EXPECT_EQ(ChooseCodec(At(0)).codec, RangeCodec::kSmall);
  CodecCosts costs = At(1e9);
  costs.small.decode_s = 0;
  EXPECT_EQ(ChooseCodec(costs).codec, RangeCodec::kSmall);
}

TEST(CodecSetting, IsReadFromItsName) {
  EXPECT_EQ(CodecSettingFromName("auto").value(), CodecSetting::kAuto);
  EXPECT_THAT(std::string(CodecSettingFromName("zip").status().message()),
              HasSubstr("fast, small and auto"));
}

TEST(MeasureCodecs, ScalesASampleToTheWholeVersion) {
  TestModel before{SchemaOf({{"w", DType::kBF16, {4096}}}), {Bytes(8192, 1)}};
  TestModel after = before;
  for (size_t i = 0; i < 8192; i += 64) after.tensors[0][i] = 2;
  RealClock clock;
  const auto costs = MeasureCodecs(TestKernels(), ModelViewSource(before.view()),
                                   ModelViewSource(after.view()), AllCells(after.schema), 1, clock);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_GT(costs->fast.encode_s, 0);
  EXPECT_GT(costs->small.decode_s, 0);
  EXPECT_LT(costs->small.bytes, 8192);
  EXPECT_EQ(costs->link_bytes_per_s, 0);
}

TEST(MeasureCodecs, FindsNothingToMeasureWhereNothingChanged) {
  TestModel model{SchemaOf({{"w", DType::kBF16, {4}}}), {Bytes(8)}};
  RealClock clock;
  const ModelView view = model.view();
  const auto costs = MeasureCodecs(TestKernels(), ModelViewSource(view), ModelViewSource(view),
                                   AllCells(model.schema), 1, clock);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(ChooseCodec(*costs).codec, RangeCodec::kSmall);
}

}  // namespace
}  // namespace pulse
