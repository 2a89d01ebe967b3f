// The program's subcommands. Each lives in a file of its own under app/commands/ and adds itself to
// the parser by one function listed here.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "app/console.h"
#include "core/clock.h"
#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

// What every command works with. Lives as long as the program.
struct Environment {
  RealClock clock;
  std::unique_ptr<Filesystem> filesystem;
  Console console;
};

// What the chosen subcommand does, set by its parser callback.
using Action = std::function<Status()>;

// --json and --progress, for commands that report.
void AddConsoleOptions(CLI::App& command, Console& console);

// --memory: a bound of anonymous memory in MiB.
void AddMemoryOption(CLI::App& command, uint64_t& memory_mib);
// What of that bound encoded data may take: the rest is the workers' scratch and the program
// itself.
uint64_t BlobBytes(uint64_t memory_mib, int threads);

// --threads: by default the machine's, as far as the bound of memory has scratch for them.
void AddThreadCountOption(CLI::App& command, int& threads);
int ThreadsWithin(uint64_t memory_mib, int asked);  // asked: 0 for the default

void AddTrain(CLI::App& app, Environment& env, Action& chosen);
void AddEvaluate(CLI::App& app, Environment& env, Action& chosen);
void AddReport(CLI::App& app, Environment& env, Action& chosen);
void AddPublish(CLI::App& app, Environment& env, Action& chosen);
void AddFollow(CLI::App& app, Environment& env, Action& chosen);
void AddDiff(CLI::App& app, Environment& env, Action& chosen);
void AddApply(CLI::App& app, Environment& env, Action& chosen);
void AddInspect(CLI::App& app, Environment& env, Action& chosen);
void AddVerify(CLI::App& app, Environment& env, Action& chosen);
void AddConvert(CLI::App& app, Environment& env, Action& chosen);
void AddGc(CLI::App& app, Environment& env, Action& chosen);
void AddDoctor(CLI::App& app, Environment& env, Action& chosen);
void AddBench(CLI::App& app, Environment& env, Action& chosen);

// Parses and runs; the process's exit code. Errors are one line on stderr.
int RunCommandLine(int argc, char** argv);

}  // namespace pulse
