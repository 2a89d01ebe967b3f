#include "kernels/grid_values/grid_values.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/rng.h"
#include "kernels/grid_values/grid_values_math.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/fenced.h"

namespace pulse::kernels {
namespace {

const GridValuesBody& Reference() {
  return GridValuesBodies().front();
}

// Any words; of some of the values the lowest bits are zero.
struct Case {
  explicit Case(size_t n) {
    Rng rng(8, {.sample = static_cast<uint32_t>(n)});
    for (size_t i = 0; i < n; ++i) {
      const uint32_t near_cell_edge = rng.Below(4) == 0 ? 0xFFFF8000u : ~0u;
      theta.push_back((rng.U32() & near_cell_edge) + rng.Below(2));
      const uint32_t exponent =
          rng.Below(3) == 0 ? rng.U32() : theta.back() - (rng.Below(24) << 23);
      values.push_back(((rng.U32() & 0x807FFFFF) | (exponent & 0x7F800000)) >> (i % 24)
                                                                                   << (i % 24));
    }
  }

  std::vector<uint32_t> theta, values;
};

TEST(GridValues, PutsTogetherWhatItTookApart) {
  const Case made(20'000);
  for (const unsigned coarser : {0u, 5u, 16u}) {
    std::vector<uint32_t> symbols(made.theta.size()), plain(symbols), tails(symbols), back(symbols);
    Reference().split(coarser, made.theta, made.values, symbols.data(), plain.data());
    size_t on_grid = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      const unsigned count = plain[i] >> kPlainCountShift & 31;
      const uint64_t bits = LowBits(plain[i], kPlainMantissaBits);
      ASSERT_EQ((plain[i] & kOffGridFlag) != 0, IsOffGrid(made.theta[i], made.values[i], coarser));
      ASSERT_EQ(bits >> count, 0u);
      tails[i] = static_cast<uint32_t>(bits << (32 - count) | (0xAAAAAAAAu >> count & 0xFFFF));
    }
    Reference().join(coarser, made.theta, symbols.data(), tails.data(), back.data());
    for (size_t i = 0; i < plain.size(); ++i) {
      if ((plain[i] & kOffGridFlag) != 0) continue;
      ++on_grid;
      ASSERT_EQ(back[i], made.values[i]) << "theta " << made.theta[i];
    }
    EXPECT_GT(on_grid, plain.size() / 8);
  }
}

TEST(GridValues, EveryBodyGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const GridValuesBody& body : GridValuesBodies()) {
      SCOPED_TRACE(body.name);
      for (const size_t n : {0, 1, 7, 16, 17, 1000}) {
        for (const unsigned coarser : {0u, 4u, 16u}) {
          const Case made(n);
          Fenced<uint32_t> theta(std::span<const uint32_t>(made.theta));
          Fenced<uint32_t> values(std::span<const uint32_t>(made.values));
          std::vector<uint32_t> symbols(n), plain(n), joined(n);
          Reference().split(coarser, made.theta, made.values, symbols.data(), plain.data());
          Fenced<uint32_t> own_symbols(n), own_plain(n), own_joined(n);
          body.split(coarser, theta.span(), values.span(), own_symbols.data(), own_plain.data());
          ASSERT_TRUE(std::ranges::equal(own_symbols.span(), symbols));
          ASSERT_TRUE(std::ranges::equal(own_plain.span(), plain));
          // Values for tails: any words.
          Reference().join(coarser, made.theta, symbols.data(), made.values.data(), joined.data());
          body.join(coarser, theta.span(), own_symbols.data(), values.data(), own_joined.data());
          ASSERT_TRUE(std::ranges::equal(own_joined.span(), joined));
          ASSERT_TRUE(own_symbols.FenceIsIntact() && own_plain.FenceIsIntact() &&
                      own_joined.FenceIsIntact());
        }
      }
    }
  });
}

}  // namespace
}  // namespace pulse::kernels
