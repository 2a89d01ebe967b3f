// The benches under `pulseloco bench`, one file each. Figures are ratios to a bound or a baseline
// that is measured in the same run: seconds alone say little on a shared machine.
#pragma once

#include "app/command_line.h"

namespace pulse {

// Adds itself to `bench`, as commands add themselves to the program.
void AddBenchCodec(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchKernels(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchExchange(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchSync(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchUpdates(CLI::App& bench, Environment& env, Action& chosen);

}  // namespace pulse
