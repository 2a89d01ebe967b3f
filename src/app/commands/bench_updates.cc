#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "app/commands/bench.h"
#include "app/commands/bench_updates_data.h"
#include "app/commands/bench_updates_round.h"
#include "app/timing.h"
#include "codec/sparse_small.h"
#include "codec/update_codec.h"
#include "kernels/kernels.h"
#include "kernels/sparse_small/grid_value.h"
#include "loco/pseudo_gradient.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr unsigned kRounded = 4;

struct BenchArguments {
  uint64_t elements = uint64_t{4} << 20;
  uint64_t repeats = 3;
  std::vector<double> densities;
  std::string kernels = "auto";
};

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

json Measure(Environment& env, const BenchArguments& a, const kernels::KernelTable& kernels,
             double learning_rate) {
  Trained t = Train(kernels, a.elements, learning_rate);
  const auto entries = static_cast<double>(t.update.entries());
  const Bound bound = BoundOf(t);
  const json round =
      MeasureRound(a.repeats, kernels, t, LastRoundOfOthers(kernels, t, learning_rate));
  const json small =
      MeasureCodec(env.clock, a.repeats, kernels, t, {.name = UpdateCodecName::kSmall});
  const json fast =
      MeasureCodec(env.clock, a.repeats, kernels, t, {.name = UpdateCodecName::kFast});
  const double bound_bytes = (bound.position_bits + bound.value_bits) / 8 / entries;
  json row = {{"learning_rate", learning_rate},
              {"density", t.density()},
              {"bound_bytes_per_entry", bound_bytes},
              {"bound_position_bytes_per_entry", bound.position_bits / 8 / entries},
              {"small", small},
              {"fast", fast},
              {"small_over_bound", small["bytes_per_entry"].get<double>() / bound_bytes},
              {"round", round}};
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
  fmt::print("  {:>9} {:>8} {:>6} {:>16} {:>8} {:>16} {:>6} {:>17} {:>17}\n", "rate", "density",
             "bound", "small", "of bound", "fast", "ulp:4", "small ns/element", "fast ns/element");
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
  fmt::print("  {:>9.2e} {:>7.2f}% {:>6.3f} {:>16} {:>8.3f} {:>16} {:>6.2f} {:>17} {:>17}\n",
             row["learning_rate"].get<double>(), 100 * row["density"].get<double>(),
             row["bound_bytes_per_entry"].get<double>(), split(row["small"]),
             row["small_over_bound"].get<double>(), split(row["fast"]),
             row["rounded_bytes_per_entry"].get<double>(), times(row["small"]), times(row["fast"]));
  PrintRound(row["round"]);
}

Status BenchUpdates(Environment& env, const BenchArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels(a.kernels));
  std::vector<double> rates, densities = a.densities;
  if (densities.empty()) {
    rates = {1e-6, 3e-6};
    densities = {0.01, 0.05, 0.2};
  }
  for (const double density : densities) rates.push_back(LearningRateFor(kernels, density));
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
  command
      ->add_option("--density", a->densities,
                   "Shares of entries that pass, about; by default 0.01, 0.05, 0.2 and two rates")
      ->check(CLI::Range(0.001, 0.5));
  AddRepeatsOption(*command, a->repeats);
  AddKernelsOption(*command, a->kernels);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchUpdates(env, *a); }; });
}

}  // namespace pulse
