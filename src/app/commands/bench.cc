#include "app/commands/bench.h"

#include <algorithm>
#include <array>
#include <thread>

#include "kernels/arithmetic/prefetch.h"

namespace pulse {
namespace {

constexpr std::array kBenches = {AddBenchCodec,    AddBenchUpdates, AddBenchKernels,
                                 AddBenchExchange, AddBenchOverlap, AddBenchSync};

}  // namespace

void AddBench(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine, beside a bound");
  command->require_subcommand(1);
  for (const auto add : kBenches) add(*command, env, chosen);
}

void AddThreadsOption(CLI::App& command, uint64_t& threads) {
  command.add_option("--threads", threads, "Beside 1; 0: the machine's")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1024}))
      ->capture_default_str();
}

void AddRepeatsOption(CLI::App& command, uint64_t& repeats) {
  command.add_option("--repeats", repeats, "Of each measurement")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000}))
      ->capture_default_str();
}

void AddKernelsOption(CLI::App& command, std::string& kernels) {
  command.add_option("--kernels", kernels, "auto, simd or reference")->capture_default_str();
}

std::vector<size_t> ThreadCounts(uint64_t asked) {
  const size_t all = asked != 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
  return all == 1 ? std::vector<size_t>{1} : std::vector<size_t>{1, all};
}

uint64_t SumOfWords(ByteView bytes) {
  constexpr size_t kSums = 32;  // enough independent ones for any vector width
  uint32_t sums[kSums] = {};
  for (size_t at = 0; at + sizeof sums <= bytes.size(); at += sizeof sums) {
    kernels::PrefetchAhead(bytes.data() + at);
    kernels::PrefetchAhead(bytes.data() + at + sizeof sums / 2);
    for (size_t lane = 0; lane < kSums; ++lane) {
      sums[lane] += LoadLittle<uint32_t>(bytes.data() + at + lane * sizeof(uint32_t));
    }
  }
  uint64_t sum = 0;
  for (const uint32_t s : sums) sum += s;
  return sum;
}

}  // namespace pulse
