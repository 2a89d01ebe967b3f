// Every body of every kernel by itself, with every instruction set that this CPU has, on arrays
// that stay in L2 (what the instructions cost) and on arrays that do not (what memory costs).
// `pulseloco bench kernels` measures the fastest bodies beside the memory's bound and LibTorch.
//
//   build/release/bench/kernels_benchmark --benchmark_filter='adamw.*/AVX2' --benchmark_format=json
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/rng.h"
#include "kernels/instruction_set.h"
#include "kernels/kernels.h"

namespace pulse::kernels {
namespace {

constexpr size_t kPiece = size_t{1} << 15;  // what callers pass at a time

// One thread's arrays. theta as in language models; w is eight steps of 1e-6 away.
struct Arrays {
  std::vector<float> theta, w, m, v, g, residual, values;
  std::vector<uint16_t> before, after;
  std::vector<uint32_t> positions, changed;
  Bytes steps;

  explicit Arrays(size_t n)
      : theta(n),
        w(n),
        m(n),
        v(n),
        g(n),
        residual(n),
        values(n),
        before(n),
        after(n),
        positions(n) {
    Rng rng(1, {});
    for (size_t i = 0; i < n; ++i) {
      theta[i] = rng.Normal() * 0.028f;
      g[i] = rng.Normal() * 1e-3f;
      m[i] = 0.1f * g[i];
      v[i] = 1e-6f;
      w[i] = theta[i] - (g[i] > 0 ? 8e-6f : -8e-6f);
    }
    CastToBF16Bodies().back().run(theta, before);
    CastToBF16Bodies().back().run(w, after);
    for (size_t i = 0; i < kPiece; ++i) {  // those of one piece stand for all
      if (before[i] == after[i]) continue;
      changed.push_back(static_cast<uint32_t>(i));
      AppendLittle(static_cast<uint16_t>(after[i] - before[i]), steps);
    }
  }
};

// Runs a body on elements [at, at + n).
using Piece = std::function<void(Arrays& arrays, size_t at, size_t n)>;

template <typename T>
std::span<T> Part(std::vector<T>& array, size_t at, size_t n) {
  return std::span(array).subspan(at, n);
}

template <typename T>
ByteView PartBytes(const std::vector<T>& array, size_t at, size_t n) {
  return AsBytes(std::span(array).subspan(at, n));
}

// bytes: that an element's pass moves, each way counted.
void Register(const std::string& name, double bytes, const std::string& instruction_set,
              const Piece& piece) {
  const auto run = [=](benchmark::State& state) {
    if (!HoldInstructionSet(instruction_set).ok()) state.SkipWithError("no such instruction set");
    const auto n = static_cast<size_t>(state.range(0));
    Arrays arrays(n);
    for (auto _ : state) {
      for (size_t at = 0; at < n; at += kPiece) piece(arrays, at, kPiece);
      benchmark::ClobberMemory();
    }
    const double elements = static_cast<double>(n) * static_cast<double>(state.iterations());
    state.SetItemsProcessed(static_cast<int64_t>(elements));
    state.SetBytesProcessed(static_cast<int64_t>(bytes * elements));
  };
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->Arg(kPiece)
      ->Arg(int64_t{1} << 23)
      ->Unit(benchmark::kMicrosecond);
}

// make(body): the work of a piece by that body.
template <typename Bodies, typename Make>
void RegisterBodies(const std::string& kernel, double bytes, Bodies bodies, const Make& make) {
  for (const auto& body : bodies) {
    const bool simd = body.name == "simd";
    const auto sets = simd ? InstructionSets() : std::vector<std::string>{"best"};
    for (const std::string& set : sets) {
      Register(kernel + "/" + std::string(body.name) + (simd ? "/" + set : ""), bytes, set,
               make(body));
    }
  }
}

void RegisterFloatKernels() {
  const auto adamw = AdamWScalars::At({.learning_rate = 1e-6}, 1000);
  RegisterBodies("adamw", 28, AdamWBodies(), [=](const AdamWBody& body) -> Piece {
    return [=, run = body.run](Arrays& a, size_t at, size_t n) {
      run(adamw, Part(a.w, at, n), Part(a.m, at, n), Part(a.v, at, n), Part(a.g, at, n));
    };
  });
  RegisterBodies("adamw_view", 30, AdamWViewBodies(), [=](const AdamWViewBody& body) -> Piece {
    return [=, run = body.run](Arrays& a, size_t at, size_t n) {
      run(adamw, Part(a.w, at, n), Part(a.m, at, n), Part(a.v, at, n), Part(a.g, at, n),
          Part(a.after, at, n), a.positions.data());
    };
  });
  RegisterBodies("gate", 16, GateBodies(), [](const GateBody& body) -> Piece {
    return [run = body.run](Arrays& a, size_t at, size_t n) {
      run(GateView::kBF16, Part(a.theta, at, n), Part(a.w, at, n), Part(a.residual, at, n),
          a.positions.data(), a.values.data());
    };
  });
  RegisterBodies("reduce_dense", 12, ReduceBodies(), [](const ReduceBody& body) -> Piece {
    return [run = body.add_dense](Arrays& a, size_t at, size_t n) {
      run(Part(a.m, at, n), Part(a.g, at, n));
    };
  });
  RegisterBodies("outer_step", 20, OuterStepBodies(), [](const OuterStepBody& body) -> Piece {
    return [run = body.run](Arrays& a, size_t at, size_t n) {
      run({.trainers = 4}, Part(a.g, at, n), Part(a.m, at, n), Part(a.v, at, n));
    };
  });
}

void RegisterViewKernels() {
  RegisterBodies("cast_view", 6, CastToBF16Bodies(), [](const CastToBF16Body& body) -> Piece {
    return [run = body.run](Arrays& a, size_t at, size_t n) {
      run(Part(a.theta, at, n), Part(a.after, at, n));
    };
  });
  RegisterBodies("diff", 4, DiffBodies(), [](const DiffBody& body) -> Piece {
    return [run = body.run](Arrays& a, size_t at, size_t n) {
      run(PartBytes(a.before, at, n), PartBytes(a.after, at, n), 2, a.positions.data());
    };
  });
  RegisterBodies("apply", 4, ApplyBodies(), [](const ApplyBody& body) -> Piece {
    return [run = body.run](Arrays& a, size_t at, size_t n) {
      run({reinterpret_cast<uint8_t*>(&a.before[at]), 2 * n}, 2, a.changed, a.steps);
    };
  });
}

}  // namespace
}  // namespace pulse::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  pulse::kernels::RegisterFloatKernels();
  pulse::kernels::RegisterViewKernels();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
