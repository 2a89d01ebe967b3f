// The benches under `pulseloco bench`, one file each. Figures are ratios to a bound or a baseline
// that is measured in the same run: seconds alone say little on a shared machine.
#pragma once

#include <string>
#include <vector>

#include "app/command_line.h"
#include "core/bytes.h"

namespace pulse {

// Adds itself to `bench`, as commands add themselves to the program.
void AddBenchCodec(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchKernels(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchExchange(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchOverlap(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchSync(CLI::App& bench, Environment& env, Action& chosen);
void AddBenchUpdates(CLI::App& bench, Environment& env, Action& chosen);

// Options of benches that measure this machine.
void AddThreadsOption(CLI::App& command, uint64_t& threads);
void AddRepeatsOption(CLI::App& command, uint64_t& repeats);
void AddKernelsOption(CLI::App& command, std::string& kernels);

// What to measure with: one thread, then as many as asked for (0: the machine's).
std::vector<size_t> ThreadCounts(uint64_t asked);

// The sum of all whole 32-bit words but a short rest at the end, added as fast as memory gives
// them: what scans are compared with.
uint64_t SumOfWords(ByteView bytes);

}  // namespace pulse
