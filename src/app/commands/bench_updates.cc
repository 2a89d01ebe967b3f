#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "app/commands/bench.h"
#include "app/timing.h"
#include "codec/sparse_small.h"
#include "codec/update_codec.h"
#include "core/rng.h"
#include "kernels/kernels.h"
#include "kernels/sparse_small/grid_value.h"
#include "loco/pseudo_gradient.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr uint64_t kLocalSteps = 8;
constexpr int kRounds = 4;  // the last is measured: by then the residual holds something
constexpr unsigned kRounded = 4;
// What a trainer keeps between rounds: theta, w, m, v, residual, outer momentum.
constexpr double kStateBytes = 24;

struct BenchArguments {
  uint64_t elements = uint64_t{4} << 20;
  uint64_t repeats = 3;
  std::string kernels = "auto";
};

// One trainer over language-model-like weights: normal, |w| at the median 0.019, with a gradient
// that is noise around a direction of its own for each weight. Everything goes through the loop's
// own kernels.
struct Trained {
  std::vector<float> theta, w, m, v, residual, momentum;
  SparseUpdate update;

  double density() const {
    return static_cast<double>(update.entries()) / static_cast<double>(update.elements);
  }
};

constexpr uint64_t kPiece = uint64_t{1} << 15;

void LocalStep(const kernels::KernelTable& kernels, const kernels::AdamWScalars& scalars,
               uint32_t step, Trained& t) {
  std::vector<float> gradient(kPiece);
  for (uint64_t at = 0; at < t.w.size(); at += kPiece) {
    const uint64_t n = std::min<uint64_t>(kPiece, t.w.size() - at);
    const auto piece = static_cast<uint32_t>(at / kPiece);
    Rng direction(7, {.sample = piece}), noise(7, {.step = step, .sample = piece});
    for (uint64_t i = 0; i < n; ++i) gradient[i] = 0.3f * direction.Normal() + noise.Normal();
    const auto part = [&](std::vector<float>& array) { return std::span(array).subspan(at, n); };
    kernels.adamw(scalars, part(t.w), part(t.m), part(t.v), std::span(gradient).first(n));
  }
}

Trained Train(const kernels::KernelTable& kernels, uint64_t n, double learning_rate) {
  Trained t = {.theta = std::vector<float>(n),
               .w = {},
               .m = std::vector<float>(n),
               .v = std::vector<float>(n),
               .residual = std::vector<float>(n),
               .momentum = std::vector<float>(n),
               .update = {}};
  Rng rng(5, {});
  for (float& theta : t.theta) theta = rng.Normal() * 0.028f;
  Workers workers(1);
  loco::PseudoGradient gate(kernels, workers, {{kernels::GateView::kBF16, 0, n}}, false);
  std::vector<float> sum(n);
  uint32_t step = 0;
  for (int round = 1;; ++round) {
    t.w = t.theta;
    for (uint64_t h = 0; h < kLocalSteps; ++h) {
      ++step;
      LocalStep(kernels, kernels::AdamWScalars::At({.learning_rate = learning_rate}, step), step,
                t);
    }
    if (round == kRounds) break;
    t.update = gate.Gate(t.theta, t.w, t.residual);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t b = 0; b < t.update.blocks(); ++b) {
      const uint64_t first = b * kSparseBlockElements;
      kernels.reduce.add_sparse(
          std::span(sum).subspan(first, std::min<uint64_t>(kSparseBlockElements, n - first)),
          t.update.BlockPositions(b), t.update.BlockValues(b));
    }
    kernels.outer_step({.trainers = 1}, sum, t.momentum, t.theta);
  }
  std::vector<float> residual = t.residual;  // as it was before the last gate, for more gates
  t.update = gate.Gate(t.theta, t.w, residual);
  return t;
}

// A learning rate at which about `density` of the entries pass.
double LearningRateFor(const kernels::KernelTable& kernels, double density) {
  constexpr uint64_t kSample = uint64_t{1} << 17;
  double low = 1e-8, high = 1e-3;
  for (int i = 0; i < 12; ++i) {
    const double middle = std::sqrt(low * high);
    (Train(kernels, kSample, middle).density() < density ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

// By context, how often each symbol occurred.
using Histogram = std::map<uint32_t, std::map<uint32_t, uint64_t>>;

double ConditionalBits(const Histogram& histogram) {
  double bits = 0;
  for (const auto& [context, symbols] : histogram) {
    double total = 0;
    for (const auto& [symbol, count] : symbols) total += static_cast<double>(count);
    for (const auto& [symbol, count] : symbols) {
      bits += static_cast<double>(count) * std::log2(total / static_cast<double>(count));
    }
  }
  return bits;
}

// The integer model, on the same data, without any table: which elements have entries given theta's
// exponent; and of a value as a whole number of theta's spacings its bit length and sign given the
// exponent, with the bits below the highest one as they are. A value that is no whole number: that
// it is none, and 32 bits.
struct Bound {
  double position_bits = 0, value_bits = 0;
};

Bound BoundOf(const Trained& t) {
  constexpr uint32_t kNoWholeNumber = 1000;
  Histogram masks, lengths;
  std::map<uint32_t, uint64_t> elements;
  for (const float theta : t.theta) ++elements[GridExponent(std::bit_cast<uint32_t>(theta))];
  double plain = 0;
  for (size_t b = 0; b < t.update.blocks(); ++b) {
    const auto positions = t.update.BlockPositions(b);
    for (size_t i = 0; i < positions.size(); ++i) {
      const auto theta = std::bit_cast<uint32_t>(t.theta[b * kSparseBlockElements + positions[i]]);
      const uint32_t exponent = GridExponent(theta);
      const float value = t.update.BlockValues(b)[i];
      ++masks[exponent][1];
      if (IsOffGrid(theta, std::bit_cast<uint32_t>(value), 0)) {
        ++lengths[exponent][kNoWholeNumber];
        plain += 32;
        continue;
      }
      const double whole =
          std::abs(std::ldexp(static_cast<double>(value), 150 - static_cast<int>(exponent)));
      const int length = whole == 0 ? 0 : std::ilogb(whole) + 1;
      ++lengths[exponent][static_cast<uint32_t>(2 * length + (value < 0 ? 1 : 0))];
      // Above 24 bits the lowest of them are zero: FP32 has no more.
      plain += std::max(0, std::min(length, 24) - 1);
    }
  }
  for (const auto& [exponent, count] : elements) {
    const uint64_t held = count - masks[exponent][1];
    if (held > 0) masks[exponent][0] = held;
    if (masks[exponent][1] == 0) masks[exponent].erase(1);
  }
  return {ConditionalBits(masks), ConditionalBits(lengths) + plain};
}

// The same positions with values that take no bits: what is left are the positions' bytes.
SparseUpdate PositionsOf(const Trained& t) {
  SparseUpdate update = t.update;
  for (size_t b = 0; b < update.blocks(); ++b) {
    for (uint64_t i = update.starts[b]; i < update.starts[b + 1]; ++i) {
      const float theta = t.theta[b * kSparseBlockElements + update.positions[i]];
      update.values[i] = std::bit_cast<float>(SignAway(std::bit_cast<uint32_t>(theta)) << 31);
    }
  }
  return update;
}

double Ns(const Timing& timing, uint64_t elements) {
  return timing.best_s / static_cast<double>(elements) * 1e9;
}

json MeasureCodec(Clock& clock, size_t repeats, const kernels::KernelTable& kernels,
                  const Trained& t, UpdateCodec codec) {
  Bytes bytes;
  const Timing encode =
      TimeRepeated(clock, repeats, [&] { bytes = codec.Encode(kernels, t.update, t.theta); });
  const Timing decode = TimeRepeated(clock, repeats, [&] {
    if (!codec.Decode(kernels, bytes, t.theta.size(), t.theta).ok()) std::abort();  // a bug of ours
  });
  const auto entries = static_cast<double>(t.update.entries());
  const auto positions = codec.Encode(kernels, PositionsOf(t), t.theta).size();
  return {{"bytes_per_entry", static_cast<double>(bytes.size()) / entries},
          {"position_bytes_per_entry", static_cast<double>(positions) / entries},
          {"encode_ns_per_element", Ns(encode, t.theta.size())},
          {"decode_ns_per_element", Ns(decode, t.theta.size())}};
}

// The other work of a round on the same elements, and the time to read the state once.
struct RoundCosts {
  double gate_ns, reduce_ns, read_state_ns;
};

RoundCosts MeasureRound(Clock& clock, size_t repeats, const kernels::KernelTable& kernels,
                        const Trained& t) {
  const uint64_t n = t.theta.size();
  Workers workers(1);
  loco::PseudoGradient gate(kernels, workers, {{kernels::GateView::kBF16, 0, n}}, false);
  std::vector<float> residual = t.residual, sum(n);
  const Timing gated = TimeRepeated(clock, repeats, [&] {
    (void)gate.Gate(t.theta, t.w, residual);  // later ones find a residual of zeros where it sent
  });
  const Timing reduced = TimeRepeated(clock, repeats, [&] {
    for (size_t b = 0; b < t.update.blocks(); ++b) {
      const uint64_t first = b * kSparseBlockElements;
      kernels.reduce.add_sparse(
          std::span(sum).subspan(first, std::min<uint64_t>(kSparseBlockElements, n - first)),
          t.update.BlockPositions(b), t.update.BlockValues(b));
    }
  });
  uint64_t sink = 0;
  const Timing read = TimeRepeated(clock, repeats, [&] {
    for (const auto* array : {&t.theta, &t.w, &t.m, &t.v, &t.residual, &t.momentum}) {
      sink += SumOfWords(AsBytes(std::span<const float>(*array)));
    }
  });
  [[maybe_unused]] volatile uint64_t keep = sink;
  return {Ns(gated, n), Ns(reduced, n), Ns(read, n)};
}

json Measure(Environment& env, const BenchArguments& a, const kernels::KernelTable& kernels,
             double learning_rate) {
  Trained t = Train(kernels, a.elements, learning_rate);
  const auto entries = static_cast<double>(t.update.entries());
  const Bound bound = BoundOf(t);
  const RoundCosts costs = MeasureRound(env.clock, a.repeats, kernels, t);
  const json small =
      MeasureCodec(env.clock, a.repeats, kernels, t, {.name = UpdateCodecName::kSmall});
  const json fast =
      MeasureCodec(env.clock, a.repeats, kernels, t, {.name = UpdateCodecName::kFast});
  const double bound_bytes = (bound.position_bits + bound.value_bits) / 8 / entries;
  const double work = costs.gate_ns + costs.reduce_ns +
                      small["encode_ns_per_element"].get<double>() +
                      small["decode_ns_per_element"].get<double>();
  json row = {{"learning_rate", learning_rate},
              {"density", t.density()},
              {"bound_bytes_per_entry", bound_bytes},
              {"bound_position_bytes_per_entry", bound.position_bits / 8 / entries},
              {"small", small},
              {"fast", fast},
              {"small_over_bound", small["bytes_per_entry"].get<double>() / bound_bytes},
              {"gate_ns_per_element", costs.gate_ns},
              {"reduce_ns_per_element", costs.reduce_ns},
              {"read_state_ns_per_element", costs.read_state_ns},
              {"work_over_read_state", work / costs.read_state_ns}};
  Workers workers(1);
  loco::PseudoGradient rounding(kernels, workers, {{kernels::GateView::kBF16, 0, a.elements}},
                                false, kRounded);
  t.update = rounding.Gate(t.theta, t.w, t.residual);
  const UpdateCodec coarser = {.name = UpdateCodecName::kSmall, .coarser = CoarserBits(kRounded)};
  row["rounded_bytes_per_entry"] =
      static_cast<double>(coarser.Encode(kernels, t.update, t.theta).size()) /
      static_cast<double>(t.update.entries());
  return row;
}

void PrintHead(const BenchArguments& a, std::string_view kernels) {
  fmt::print(
      "{} elements, {} kernels, one thread, best of {}; H = {}; bytes an entry (positions + "
      "values)\n",
      a.elements, kernels, a.repeats, kLocalSteps);
  fmt::print("raw int64 + FP32 12, raw int32 + FP32 8; bound: entropy of the integer model\n");
  fmt::print("  {:>9} {:>8} {:>6} {:>16} {:>8} {:>16} {:>6} {:>17} {:>17} {:>10}\n", "rate",
             "density", "bound", "small", "of bound", "fast", "ulp:4", "small ns/element",
             "fast ns/element", "of 4 reads");
}

void Print(const json& row) {
  const auto split = [](const json& codec) {
    const double all = codec["bytes_per_entry"], positions = codec["position_bytes_per_entry"];
    return fmt::format("{:.2f} ({:.2f}+{:.2f})", all, positions, all - positions);
  };
  const auto times = [](const json& codec) {
    return fmt::format("{:.2f} + {:.2f}", codec["encode_ns_per_element"].get<double>(),
                       codec["decode_ns_per_element"].get<double>());
  };
  fmt::print(
      "  {:>9.2e} {:>7.2f}% {:>6.3f} {:>16} {:>8.3f} {:>16} {:>6.2f} {:>17} {:>17} {:>9.0f}%\n",
      row["learning_rate"].get<double>(), 100 * row["density"].get<double>(),
      row["bound_bytes_per_entry"].get<double>(), split(row["small"]),
      row["small_over_bound"].get<double>(), split(row["fast"]),
      row["rounded_bytes_per_entry"].get<double>(), times(row["small"]), times(row["fast"]),
      100 * row["work_over_read_state"].get<double>() / 4);
  fmt::print(
      "  {:>9} gate {:.2f}, reduce {:.2f}, reading the state's {} B once {:.2f} ns/element\n", "",
      row["gate_ns_per_element"].get<double>(), row["reduce_ns_per_element"].get<double>(),
      kStateBytes, row["read_state_ns_per_element"].get<double>());
}

Status BenchUpdates(Environment& env, const BenchArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels(a.kernels));
  std::vector<double> rates = {1e-6, 3e-6};
  for (const double density : {0.01, 0.05, 0.2}) rates.push_back(LearningRateFor(kernels, density));
  json rows = json::array();
  if (!env.console.json) PrintHead(a, kernels.name);
  for (const double rate : rates) {
    rows.push_back(Measure(env, a, kernels, rate));
    if (!env.console.json) Print(rows.back());
  }
  if (env.console.json) {
    const json result = {{"elements", a.elements},
                         {"kernels", kernels.name},
                         {"local_steps", kLocalSteps},
                         {"repeats", a.repeats},
                         {"rows", rows}};
    fmt::print("{}\n", result.dump(2));
  }
  return OkStatus();
}

}  // namespace

void AddBenchUpdates(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "updates", "Bytes and time of sparse updates, beside the entropy of the same data");
  auto a = std::make_shared<BenchArguments>();
  command->add_option("--elements", a->elements, "Parameters of the simulated trainer")
      ->check(CLI::Range(uint64_t{1} << 16, uint64_t{1} << 32))
      ->capture_default_str();
  AddRepeatsOption(*command, a->repeats);
  AddKernelsOption(*command, a->kernels);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchUpdates(env, *a); }; });
}

}  // namespace pulse
