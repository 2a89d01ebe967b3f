#include "kernels/adamw_view/adamw_view.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cast_view/cast_view.h"
#include "kernels/diff/diff.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

struct State {
  std::vector<float> w, m, v, g;
};

State Awkward(size_t n) {
  return {AwkwardFloats(n, 1), AwkwardFloats(n, 2), AwkwardFloats(n, 3), AwkwardFloats(n, 4)};
}

// Weights of which some move past a rounding boundary of BF16 and some do not, and frozen rows.
State Realistic(size_t n) {
  State s = Awkward(n);
  for (size_t i = 0; i < n; ++i) {
    s.w[i] = 1e-2f + 1e-6f * static_cast<float>(i % 997);
    s.m[i] = i % 3 == 0 ? 0 : 1e-3f * static_cast<float>(i % 5);
    s.v[i] = 1e-6f;
    s.g[i] = i % 3 == 0 ? 0 : 1e-3f;
  }
  return s;
}

std::vector<uint16_t> ViewOf(const std::vector<float>& w) {
  std::vector<uint16_t> view(w.size());
  CastToBF16Bodies().front().run(w, view);
  return view;
}

// The same by three passes: adamw, cast_view, diff.
TEST(AdamWView, EveryBodyGivesTheBitsOfThreePasses) {
  const AdamWScalars scalars = AdamWScalars::At({.learning_rate = 1e-4, .weight_decay = 0.1}, 3);
  OnEveryTarget([&] {
    for (const AdamWViewBody& body : AdamWViewBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : kAwkwardSizes) {
        for (const State& state : {Awkward(n), Realistic(n)}) {
          State plain = state;
          const std::vector<uint16_t> before = ViewOf(plain.w);
          AdamWBodies().front().run(scalars, plain.w, plain.m, plain.v, plain.g);
          const std::vector<uint16_t> after = ViewOf(plain.w);
          std::vector<uint32_t> changed(n);
          changed.resize(DiffBodies().front().run(AsBytes(std::span(before)),
                                                  AsBytes(std::span(after)), 2, changed.data()));

          Fenced<float> w(state.w, 4), m(state.m, 8), v(state.v, 12), g(state.g);
          Fenced<uint16_t> view(std::vector<uint16_t>(n), 2);
          Fenced<uint32_t> positions(std::vector<uint32_t>(n), 4);
          const size_t count = body.run(scalars, w.span(), m.span(), v.span(), g.span(),
                                        view.span(), positions.span().data());
          ExpectSameBits(w.span(), plain.w, "w");
          ExpectSameBits(m.span(), plain.m, "m");
          ExpectSameBits(v.span(), plain.v, "v");
          ASSERT_EQ(std::vector(view.span().begin(), view.span().end()), after);
          ASSERT_EQ(count, changed.size());
          ASSERT_TRUE(std::equal(changed.begin(), changed.end(), positions.span().begin()));
          ASSERT_TRUE(w.FenceIsIntact() && m.FenceIsIntact() && v.FenceIsIntact() &&
                      view.FenceIsIntact() && positions.FenceIsIntact());
        }
      }
    }
  });
}

TEST(AdamWView, TellsWhatTheNextForwardPassSees) {
  const AdamWScalars scalars = AdamWScalars::At({.learning_rate = 1e-3, .epsilon = 0}, 1);
  // The first step lowers each by the learning rate. The lower half-cell of 0.25 is 2^-11, less
  // than that; the one of 1 is 2^-9, more.
  std::vector<float> w = {0.25f, 1.0f, 0.25f}, m(3), v(3);
  const std::vector<float> g = {1, 1, 0.5f};
  std::vector<uint16_t> view(3);
  std::vector<uint32_t> positions(3);
  const size_t count = AdamWViewBodies().front().run(scalars, w, m, v, g, view, positions.data());
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(positions[0], 0u);
  EXPECT_EQ(positions[1], 2u);
  EXPECT_EQ(view, ViewOf(w));
}

}  // namespace
}  // namespace pulse::kernels
