#include "app/commands/bench.h"

#include <array>

namespace pulse {
namespace {

constexpr std::array kBenches = {AddBenchCodec, AddBenchUpdates, AddBenchKernels, AddBenchExchange,
                                 AddBenchSync};

}  // namespace

void AddBench(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine, beside a bound");
  command->require_subcommand(1);
  for (const auto add : kBenches) add(*command, env, chosen);
}

}  // namespace pulse
