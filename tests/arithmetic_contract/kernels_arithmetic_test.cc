// The kernels' half of the arithmetic contract: every body, on every instruction set that this CPU
// has, against values that were not computed by a kernel: by hand, in double with one rounding per
// operation, and as golden digests that must come out on every machine.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/digest.h"
#include "core/rng.h"
#include "kernels/arithmetic/arithmetic.h"
#include "kernels/kernels.h"
#include "kernels/testing/every_target.h"
#include "kernels/testing/patterns.h"

namespace pulse::kernels {
namespace {

constexpr float kA = 1 + 0x1p-12f;          // kA * kA = 1 + 2^-11 + 2^-24, a tie
constexpr float kSquareOfA = 1 + 0x1p-11f;  // ... rounds to this; fused, 2^-24 remains
constexpr size_t kElements = 67;            // whole vectors and a tail, on every machine

// Not by ChooseKernels: it refuses to work in a process that breaks the contract, and these tests
// are to show which bits break.
KernelTable Bodies(bool fastest) {
  const auto pick = [&](auto bodies) { return fastest ? bodies.back() : bodies.front(); };
  return {.name = fastest ? "fastest" : "reference",
          .adamw = pick(AdamWBodies()).run,
          .adamw_view = pick(AdamWViewBodies()).run,
          .apply = pick(ApplyBodies()).run,
          .cast_to_bf16 = pick(CastToBF16Bodies()).run,
          .class_bits = pick(ClassBitsBodies()),
          .class_rank = pick(ClassRankBodies()),
          .diff = pick(DiffBodies()).run,
          .gate = pick(GateBodies()).run,
          .grid_values = pick(GridValuesBodies()),
          .outer_step = pick(OuterStepBodies()).run,
          .reduce = pick(ReduceBodies())};
}

template <typename Test>
void OnEveryBody(Test test) {
  OnEveryTarget([&] {
    for (const bool fastest : {false, true}) {
      const KernelTable kernels = Bodies(fastest);
      SCOPED_TRACE(kernels.name);
      test(kernels);
    }
  });
}

struct Moments {
  float w, m, v, g;
};

Moments AfterAdamW(const KernelTable& kernels, const AdamWScalars& scalars, Moments start) {
  std::vector<float> w(kElements, start.w), m(kElements, start.m), v(kElements, start.v);
  const std::vector<float> g(kElements, start.g);
  std::vector<float> fused_w = w, fused_m = m, fused_v = v;
  std::vector<uint16_t> view(kElements);
  std::vector<uint32_t> positions(kElements);
  kernels.adamw(scalars, w, m, v, g);
  kernels.adamw_view(scalars, fused_w, fused_m, fused_v, g, view, positions.data());
  for (size_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(ToBits(fused_w[i]), ToBits(w[0])) << i;
    EXPECT_EQ(ToBits(fused_m[i]), ToBits(m[0])) << i;
    EXPECT_EQ(ToBits(fused_v[i]), ToBits(v[0])) << i;
    EXPECT_EQ(ToBits(w[i]), ToBits(w[0])) << i;
    EXPECT_EQ(ToBits(m[i]), ToBits(m[0])) << i;
    EXPECT_EQ(ToBits(v[i]), ToBits(v[0])) << i;
  }
  return {w[0], m[0], v[0], start.g};
}

// Each product of adamw.h in turn is kA * kA and meets its negated rounded self: zero, unless
// fused.
TEST(AdamWArithmetic, RoundsEveryProduct) {
  const AdamWScalars none = {.decay = 0,
                             .beta1 = 0,
                             .one_minus_beta1 = 0,
                             .beta2 = 0,
                             .one_minus_beta2 = 0,
                             .step_size = 0,
                             .root_correction2 = 1,
                             .epsilon = 1};
  OnEveryBody([&](const KernelTable& kernels) {
    AdamWScalars scalars = none;
    scalars.beta1 = kA;
    scalars.one_minus_beta1 = -kSquareOfA;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = 0, .m = kA, .v = 0, .g = 1}).m, 0) << "beta1 * m";

    scalars = none;
    scalars.beta1 = -kSquareOfA;
    scalars.one_minus_beta1 = kA;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = 0, .m = 1, .v = 0, .g = kA}).m, 0)
        << "(1 - beta1) * g";

    scalars = none;
    scalars.beta2 = kA;
    scalars.one_minus_beta2 = -kSquareOfA;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = 0, .m = 0, .v = kA, .g = 1}).v, 0) << "beta2 * v";

    scalars = none;
    scalars.beta2 = -kSquareOfA;
    scalars.one_minus_beta2 = 1;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = 0, .m = 0, .v = 1, .g = kA}).v, 0) << "g * g";

    scalars = none;
    scalars.decay = kA;
    scalars.step_size = kSquareOfA;
    scalars.beta1 = 1;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = kA, .m = 1, .v = 0, .g = 0}).w, 0) << "w * decay";

    scalars = none;
    scalars.decay = 1;
    scalars.step_size = kA;
    scalars.beta1 = 1;
    EXPECT_EQ(AfterAdamW(kernels, scalars, {.w = kSquareOfA, .m = kA, .v = 0, .g = 0}).w, 0)
        << "step";
  });
}

TEST(OuterStepArithmetic, RoundsEveryProduct) {
  OnEveryBody([](const KernelTable& kernels) {
    std::vector<float> sum(kElements, -kSquareOfA), momentum(kElements, kA), theta(kElements, 0);
    kernels.outer_step({.learning_rate = 0, .momentum = kA, .trainers = 1}, sum, momentum, theta);
    EXPECT_EQ(momentum, std::vector<float>(kElements, 0)) << "mu * b + g";

    sum.assign(kElements, kA);
    momentum.assign(kElements, 0);
    theta.assign(kElements, kSquareOfA);
    kernels.outer_step({.learning_rate = kA, .momentum = 0, .trainers = 1}, sum, momentum, theta);
    EXPECT_EQ(theta, std::vector<float>(kElements, 0)) << "theta - lr * g";
  });
}

TEST(KernelArithmetic, KeepsDenormals) {
  OnEveryBody([](const KernelTable& kernels) {
    const std::vector<float> tiny(kElements, FromBits(3));
    std::vector<float> sum = tiny;
    kernels.reduce.add_dense(sum, tiny);
    ExpectSameBits(sum, std::vector<float>(kElements, FromBits(6)), "sum");
    kernels.reduce.mean(sum, 4);
    ExpectSameBits(sum, std::vector<float>(kElements, FromBits(2)), "mean");  // 1.5: a tie, to even
    std::vector<uint16_t> view(kElements);
    kernels.cast_to_bf16(std::vector<float>(kElements, FromBits(0x00018000)), view);
    EXPECT_EQ(view, std::vector<uint16_t>(kElements, 2));
  });
}

// One FP32 operation in double, rounded once more: the same bits as the correctly rounded
// operation, because 53 >= 2 * 24 + 2 (Figueroa, "When is double rounding innocuous?", SIGNUM
// 1995). Nothing here can be fused or kept in excess precision: every operand and result passes
// through a volatile float.
class OneRounding {
 public:
  OneRounding(float x) : x_(x) {}  // NOLINT(google-explicit-constructor): reads as arithmetic
  float value() const { return x_; }
  friend OneRounding operator+(OneRounding a, OneRounding b) { return Round(a.wide() + b.wide()); }
  friend OneRounding operator-(OneRounding a, OneRounding b) { return Round(a.wide() - b.wide()); }
  friend OneRounding operator*(OneRounding a, OneRounding b) { return Round(a.wide() * b.wide()); }
  friend OneRounding operator/(OneRounding a, OneRounding b) { return Round(a.wide() / b.wide()); }
  friend OneRounding Sqrt(OneRounding a) { return Round(std::sqrt(a.wide())); }

 private:
  double wide() const { return x_; }
  static OneRounding Round(double x) {
    volatile float rounded = static_cast<float>(x);
    return {rounded};
  }
  float x_;
};

std::vector<float> Normals(size_t n, float scale, uint32_t sample) {
  Rng rng(11, {.use = RngUse::kTest, .sample = sample});
  std::vector<float> out(n);
  for (float& x : out) x = rng.Normal() * scale;
  return out;
}

std::vector<float> Positive(std::vector<float> values) {
  for (float& x : values) x = std::fabs(x);
  return values;
}

TEST(AdamWArithmetic, RoundsOncePerOperation) {
  const AdamWScalars k = AdamWScalars::At({.learning_rate = 3e-6, .weight_decay = 0.01}, 5);
  const size_t n = 10'000;
  const std::vector<float> w0 = Normals(n, 0x1p-6f, 1), m0 = Normals(n, 0x1p-10f, 2),
                           v0 = Positive(Normals(n, 0x1p-20f, 3)), g = Normals(n, 0x1p-10f, 4);
  std::vector<float> expected_w(n), expected_m(n), expected_v(n);
  for (size_t i = 0; i < n; ++i) {
    using R = OneRounding;
    const R m = R(k.beta1) * R(m0[i]) + R(k.one_minus_beta1) * R(g[i]);
    const R v = R(k.beta2) * R(v0[i]) + (R(k.one_minus_beta2) * R(g[i])) * R(g[i]);
    const R denominator = Sqrt(v) / R(k.root_correction2) + R(k.epsilon);
    expected_w[i] = (R(w0[i]) * R(k.decay) - R(k.step_size) * (m / denominator)).value();
    expected_m[i] = m.value();
    expected_v[i] = v.value();
  }
  OnEveryBody([&](const KernelTable& kernels) {
    std::vector<float> w = w0, m = m0, v = v0;
    kernels.adamw(k, w, m, v, g);
    ExpectSameBits(w, expected_w, "w");
    ExpectSameBits(m, expected_m, "m");
    ExpectSameBits(v, expected_v, "v");
  });
}

TEST(OuterStepArithmetic, RoundsOncePerOperation) {
  const OuterScalars k = {.learning_rate = 0.7f, .momentum = 0.9f, .trainers = 3};
  const size_t n = 10'000;
  const std::vector<float> sum = Normals(n, 0x1p-14f, 5), b0 = Normals(n, 0x1p-14f, 6),
                           theta0 = Normals(n, 0x1p-6f, 7);
  std::vector<float> expected_b(n), expected_theta(n);
  for (size_t i = 0; i < n; ++i) {
    using R = OneRounding;
    const R g = R(sum[i]) / R(k.trainers);
    const R b = R(k.momentum) * R(b0[i]) + g;
    expected_b[i] = b.value();
    expected_theta[i] = (R(theta0[i]) - R(k.learning_rate) * (g + R(k.momentum) * b)).value();
  }
  OnEveryBody([&](const KernelTable& kernels) {
    std::vector<float> b = b0, theta = theta0;
    kernels.outer_step(k, sum, b, theta);
    ExpectSameBits(b, expected_b, "momentum");
    ExpectSameBits(theta, expected_theta, "theta");
  });
}

// Three rounds of four local steps by two trainers, every kernel in its place.
std::string DigestOfASmallRun(const KernelTable& kernels) {
  const size_t n = 5000;
  const uint32_t trainers = 2;
  std::vector<float> theta = Normals(n, 0x1p-6f, 20), momentum(n);
  std::vector<std::vector<float>> m(trainers, std::vector<float>(n)), v = m, residual = m;
  std::vector<uint32_t> positions(n);
  std::vector<float> values(n);
  uint64_t step = 0;
  Bytes trace;
  for (uint32_t round = 0; round < 3; ++round, step += 4) {
    std::vector<float> sum(n);
    for (uint32_t k = 0; k < trainers; ++k) {
      std::vector<float> w = theta;
      for (uint32_t h = 0; h < 4; ++h) {
        const AdamWOptions options = {.learning_rate = 3e-6, .weight_decay = 0.1};
        const std::vector<float> g = Normals(n, 0x1p-8f, 100 + (round * 4 + h) * trainers + k);
        kernels.adamw(AdamWScalars::At(options, step + h + 1), w, m[k], v[k], g);
      }
      const size_t count =
          kernels.gate(GateView::kBF16, theta, w, residual[k], positions.data(), values.data());
      EXPECT_GT(count, 0u);  // else the sum and the outer step would prove nothing
      EXPECT_LT(count, n);
      AppendLittle<uint64_t>(count, trace);
      kernels.reduce.add_sparse(sum, {positions.data(), count}, {values.data(), count});
    }
    kernels.outer_step({.trainers = trainers}, sum, momentum, theta);
  }
  std::vector<uint16_t> view(n);
  kernels.cast_to_bf16(theta, view);
  const auto append = [&](ByteView bytes) {
    trace.insert(trace.end(), bytes.begin(), bytes.end());
  };
  for (const auto* array : {&theta, &momentum, &m[0], &v[1], &residual[0], &residual[1]}) {
    append(AsBytes(std::span<const float>(*array)));
  }
  append(AsBytes(std::span<const uint16_t>(view)));
  return DigestOf(trace).Hex();
}

// A changed digest is a changed contract: raise kArithmeticContractVersion with it.
TEST(KernelArithmetic, GivesTheSameBitsOnEveryMachine) {
  ASSERT_EQ(kArithmeticContractVersion, 1u);
  OnEveryBody([](const KernelTable& kernels) {
    EXPECT_EQ(DigestOfASmallRun(kernels), "fd90d4020a45f87dde3e15d6e66b1bb6");
  });
}

}  // namespace
}  // namespace pulse::kernels
