#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "app/commands/bench.h"
#include "app/timing.h"
#include "app/torch_plugin.h"
#include "core/digest.h"
#include "core/rng.h"
#include "core/workers.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

using nlohmann::json;

// As the loop of src/loco works: scratch of a piece stays in L2.
constexpr uint64_t kPiece = uint64_t{1} << 15;

struct BenchArguments {
  uint64_t elements = uint64_t{64} << 20;
  uint64_t threads = 0;  // 0: the machine's
  uint64_t repeats = 7;
  std::string kernels = "auto";
};

// Language-model-like weights with what else real ones hold: a frozen row of 4,096 in 64, a few NaN
// payloads and denormals. The gradient makes AdamW's steps; w is some 8 steps from theta.
struct Data {
  std::vector<float> theta, w, m, v, g, residual;
  std::vector<uint16_t> before, after;

  explicit Data(uint64_t n) : theta(n), w(n), m(n), v(n), g(n), residual(n), before(n), after(n) {}
};

void Fill(Data& data, Workers& workers, const kernels::KernelTable& kernels) {
  const uint64_t n = data.w.size();
  RunRanges(workers, n, kPiece, [&](uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end; at += kPiece) {
      const uint64_t stop = std::min(end, at + kPiece);
      Rng rng(1, {.sample = static_cast<uint32_t>(at / kPiece)});
      for (uint64_t i = at; i < stop; ++i) {
        const bool frozen = (i >> 12) % 64 == 63;
        data.theta[i] = rng.Normal() * 0.028f;  // median |w| 0.019
        data.g[i] = frozen ? 0 : rng.Normal() * 1e-3f;
        data.m[i] = 0.1f * data.g[i];
        data.v[i] = 1e-6f;
        data.w[i] = data.theta[i] - (frozen ? 0 : 8e-6f * (data.g[i] > 0 ? 1.0f : -1.0f));
        data.residual[i] = 0;
      }
      const uint32_t payload = 0x7FC01234, denormal = 0x00000123;
      std::memcpy(&data.theta[at], &payload, sizeof payload);
      if (at + 1 < stop) std::memcpy(&data.theta[at + 1], &denormal, sizeof denormal);
      const auto span = [&](auto& array) { return std::span(array).subspan(at, stop - at); };
      kernels.cast_to_bf16(span(data.theta), span(data.before));
      kernels.cast_to_bf16(span(data.w), span(data.after));
    }
  });
}

// Seconds per byte, measured with the same threads: of reading, of changing in place (counted once)
// and of writing.
struct MemoryCost {
  double read = 0;
  double update = 0;
  double write = 0;
};

MemoryCost MeasureMemory(Clock& clock, Workers& workers, size_t repeats, Data& data) {
  const uint64_t n = data.w.size();
  const double bytes = static_cast<double>(4 * n);
  std::atomic<uint64_t> sink = 0;
  const Timing read = TimeRepeated(clock, repeats, [&] {
    RunRanges(workers, n, kPiece, [&](uint64_t begin, uint64_t end) {
      sink += SumOfWords(AsBytes(std::span<const float>(data.g).subspan(begin, end - begin)));
    });
  });
  const Timing update = TimeRepeated(clock, repeats, [&] {
    RunRanges(workers, n, kPiece, [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) data.residual[i] += 1.0f;
    });
  });
  const Timing copy = TimeRepeated(clock, repeats, [&] {
    RunRanges(workers, n, kPiece, [&](uint64_t begin, uint64_t end) {
      std::memcpy(data.residual.data() + begin, data.g.data() + begin, (end - begin) * 4);
    });
  });
  std::fill(data.residual.begin(), data.residual.end(), 0.0f);
  return {.read = read.best_s / bytes,
          .update = update.best_s / bytes,
          .write = std::max(0.0, copy.best_s - read.best_s) / bytes};
}

// What a kernel has to move for each element, in bytes.
struct Traffic {
  double read = 0, update = 0, write = 0;

  double bound_s(const MemoryCost& cost, uint64_t n) const {
    return (read * cost.read + update * cost.update + write * cost.write) * static_cast<double>(n);
  }
  double bytes() const { return read + 2 * update + write; }
};

struct Case {
  std::string name;
  Traffic traffic;
  std::function<void(uint64_t begin, uint64_t end)> run;
};

// The share of cache lines of 64 bytes that hold one of the changed BF16 words.
double TouchedLines(const Data& data) {
  uint64_t touched = 0, lines = 0;
  for (uint64_t i = 0; i + 32 <= data.before.size(); i += 32, ++lines) {
    touched += std::memcmp(&data.before[i], &data.after[i], 64) != 0;
  }
  return lines == 0 ? 0 : static_cast<double>(touched) / static_cast<double>(lines);
}

// Changed positions and steps of the views, by pieces: what `apply` takes.
struct Changes {
  std::vector<std::vector<uint32_t>> positions;
  std::vector<Bytes> steps;
  uint64_t count = 0;
};

Changes ChangesOf(const Data& data, const kernels::KernelTable& kernels) {
  Changes changes;
  std::vector<uint32_t> positions(kPiece);
  for (uint64_t at = 0; at < data.before.size(); at += kPiece) {
    const uint64_t length = std::min<uint64_t>(kPiece, data.before.size() - at);
    const auto before = std::span(data.before).subspan(at, length);
    const auto after = std::span(data.after).subspan(at, length);
    const size_t count = kernels.diff(AsBytes(before), AsBytes(after), 2, positions.data());
    changes.positions.emplace_back(positions.begin(),
                                   positions.begin() + static_cast<ptrdiff_t>(count));
    std::vector<uint16_t> steps;
    for (const uint32_t p : changes.positions.back()) {
      steps.push_back(static_cast<uint16_t>(after[p] - before[p]));
    }
    const ByteView raw = AsBytes(std::span<const uint16_t>(steps));
    changes.steps.emplace_back(raw.begin(), raw.end());
    changes.count += count;
  }
  return changes;
}

// `run` by pieces, with scratch of one piece.
template <typename Run>
auto ByPieces(Run run) {
  return [run](uint64_t begin, uint64_t end) {
    std::vector<uint32_t> positions(kPiece);
    std::vector<float> values(kPiece);
    for (uint64_t at = begin; at < end; at += kPiece) {
      run(at, std::min<uint64_t>(kPiece, end - at), positions.data(), values.data());
    }
  };
}

std::vector<Case> CasesOf(Data& d, const kernels::KernelTable& k, const Changes& changes) {
  const auto adamw = kernels::AdamWScalars::At({.learning_rate = 1e-6}, 1000);
  const kernels::OuterScalars outer = {.trainers = 4};
  const auto part = [](auto& array, uint64_t at, uint64_t n) {
    return std::span(array).subspan(at, n);
  };
  const double changed = static_cast<double>(changes.count) / static_cast<double>(d.before.size());
  return {
      {"adamw", {.read = 4, .update = 12}, ByPieces([=, &d](auto at, auto n, auto*, auto*) {
         k.adamw(adamw, part(d.w, at, n), part(d.m, at, n), part(d.v, at, n), part(d.g, at, n));
       })},
      {"adamw_view",
       {.read = 4, .update = 12, .write = 2},
       ByPieces([=, &d](auto at, auto n, auto* positions, auto*) {
         k.adamw_view(adamw, part(d.w, at, n), part(d.m, at, n), part(d.v, at, n), part(d.g, at, n),
                      part(d.after, at, n), positions);
       })},
      {"gate",
       {.read = 8, .update = 4},
       ByPieces([=, &d](auto at, auto n, auto* positions, auto* values) {
         k.gate(kernels::GateView::kBF16, part(d.theta, at, n), part(d.w, at, n),
                part(d.residual, at, n), positions, values);
       })},
      {"cast_view", {.read = 4, .write = 2}, ByPieces([=, &d](auto at, auto n, auto*, auto*) {
         k.cast_to_bf16(part(d.theta, at, n), part(d.after, at, n));
       })},
      {"diff", {.read = 4}, ByPieces([=, &d](auto at, auto n, auto* positions, auto*) {
         k.diff(AsBytes(std::span<const uint16_t>(part(d.before, at, n))),
                AsBytes(std::span<const uint16_t>(part(d.after, at, n))), 2, positions);
       })},
      // Whole cache lines move, so what it must move is what the changes touch.
      {"apply",
       {.read = 6 * changed, .update = 2 * TouchedLines(d)},
       [=, &d, &changes](uint64_t begin, uint64_t end) {
         for (uint64_t at = begin; at < end; at += kPiece) {
           const uint64_t n = std::min<uint64_t>(kPiece, end - at);
           k.apply({reinterpret_cast<uint8_t*>(&d.before[at]), 2 * n}, 2,
                   changes.positions[at / kPiece], changes.steps[at / kPiece]);
         }
       }},
      {"reduce (dense)", {.read = 4, .update = 4}, ByPieces([=, &d](auto at, auto n, auto*, auto*) {
         k.reduce.add_dense(part(d.m, at, n), part(d.g, at, n));
       })},
      {"outer_step", {.read = 4, .update = 8}, ByPieces([=, &d](auto at, auto n, auto*, auto*) {
         k.outer_step(outer, part(d.g, at, n), part(d.m, at, n), part(d.v, at, n));
       })},
      {"digest", {.read = 4}, [=, &d](uint64_t begin, uint64_t end) {
         (void)TensorDigest(AsBytes(std::span<const float>(part(d.g, begin, end - begin))));
       }}};
}

json Row(const std::string& name, size_t threads, uint64_t n, const Traffic& traffic,
         const Timing& timing, const MemoryCost& cost) {
  const double elements = static_cast<double>(n);
  return {{"kernel", name},
          {"threads", threads},
          {"elements", n},
          {"bytes_per_element", traffic.bytes()},
          {"ns_per_element", timing.median_s / elements * 1e9},
          {"best_ns_per_element", timing.best_s / elements * 1e9},
          {"worst_ns_per_element", timing.worst_s / elements * 1e9},
          {"gb_per_s", traffic.bytes() * elements / timing.median_s * 1e-9},
          {"share_of_bound", traffic.bound_s(cost, n) / timing.best_s}};
}

// LibTorch's time for the same work, where this build has LibTorch.
json Counterparts(Environment& env, Data& d, const BenchArguments& a, size_t threads) {
  const auto made = LoadTorchCounterparts(
      {.w = d.w, .m = d.m, .v = d.v, .g = d.g, .before = d.before, .after = d.after},
      {.learning_rate = 1e-6, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0},
      static_cast<int>(threads));
  json rows = json::array();
  if (!made.ok()) return rows;
  for (const Counterpart& c : *made) {
    const Timing timing = TimeRepeated(env.clock, a.repeats, c.run);
    rows.push_back({{"kernel", c.kernel},
                    {"how", c.how},
                    {"threads", threads},
                    {"ns_per_element", timing.median_s / static_cast<double>(a.elements) * 1e9}});
  }
  return rows;
}

double TorchNs(const json& rows, const std::string& kernel) {
  for (const json& row : rows) {
    if (row["kernel"] == kernel) return row["ns_per_element"];
  }
  return 0;
}

void Print(const json& result) {
  fmt::print(
      "{} elements, {} kernels, medians of {}; memory with {} thread(s): read {:.1f} GB/s, "
      "in place {:.1f}\n",
      result["elements"].get<uint64_t>(), result["kernels"].get<std::string>(),
      result["repeats"].get<uint64_t>(), result["threads"].get<uint64_t>(),
      result["read_gb_per_s"].get<double>(), result["update_gb_per_s"].get<double>());
  fmt::print("  {:<16} {:>9} {:>11} {:>9} {:>9} {:>15}\n", "kernel", "B/element", "ns/element",
             "GB/s", "of bound", "LibTorch/ours");
  for (const json& row : result["rows"]) {
    const double torch = TorchNs(result["libtorch"], row["kernel"]);
    const double ns = row["ns_per_element"];
    fmt::print("  {:<16} {:>9.2f} {:>11.3f} {:>9.1f} {:>8.0f}% {:>15}\n",
               row["kernel"].get<std::string>(), row["bytes_per_element"].get<double>(), ns,
               row["gb_per_s"].get<double>(), 100 * row["share_of_bound"].get<double>(),
               torch > 0 ? fmt::format("{:.2f}", torch / ns) : "");
  }
}

json Measure(Environment& env, const BenchArguments& a, const kernels::KernelTable& kernels,
             Data& data, size_t threads) {
  Workers workers(threads);
  Fill(data, workers, kernels);
  const MemoryCost cost = MeasureMemory(env.clock, workers, a.repeats, data);
  const Changes changes = ChangesOf(data, kernels);
  json rows = json::array();
  for (const Case& c : CasesOf(data, kernels, changes)) {
    const Timing timing = TimeRepeated(env.clock, a.repeats, [&] {
      RunRanges(workers, a.elements, std::max<uint64_t>(kPiece, kDigestChunkBytes / 4), c.run);
    });
    rows.push_back(Row(c.name, threads, a.elements, c.traffic, timing, cost));
  }
  return {{"elements", a.elements},
          {"kernels", kernels.name},
          {"repeats", a.repeats},
          {"threads", threads},
          {"read_gb_per_s", 1e-9 / cost.read},
          {"update_gb_per_s", 2e-9 / cost.update},
          {"rows", rows},
          {"libtorch", Counterparts(env, data, a, threads)}};
}

Status BenchKernels(Environment& env, const BenchArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels(a.kernels));
  Data data(a.elements);
  json results = json::array();
  for (const size_t threads : ThreadCounts(a.threads)) {
    results.push_back(Measure(env, a, kernels, data, threads));
    if (!env.console.json) Print(results.back());
  }
  if (env.console.json) fmt::print("{}\n", results.dump(2));
  return OkStatus();
}

}  // namespace

void AddBenchKernels(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "kernels", "Each kernel's time over the time to move its bytes, and beside LibTorch");
  auto a = std::make_shared<BenchArguments>();
  command
      ->add_option("--elements", a->elements,
                   "Of each array (36 bytes an element in all); far more than the caches hold")
      ->check(CLI::Range(uint64_t{1} << 16, uint64_t{1} << 34))
      ->capture_default_str();
  AddThreadsOption(*command, a->threads);
  AddRepeatsOption(*command, a->repeats);
  AddKernelsOption(*command, a->kernels);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchKernels(env, *a); }; });
}

}  // namespace pulse
