#include "app/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include "app/exit_code.h"
#include "app/facts.h"

namespace pulse {
namespace {

constexpr std::array kCommands = {AddTrain, AddEvaluate, AddReport,  AddPublish, AddFollow,
                                  AddDiff,  AddApply,    AddInspect, AddVerify,  AddConvert,
                                  AddGc,    AddDoctor,   AddBench};

void PrintError(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');  // one line, whatever a library said
  fmt::print(stderr, "pulseloco: {}\n", message);
}

constexpr uint64_t kProgramMib = 64;  // measured: libraries and heap of an idle command
constexpr uint64_t kWorkerMib = 64;   // scratch of one worker (sync/view.h, kCellBytes)

}  // namespace

void AddConsoleOptions(CLI::App& command, Console& console) {
  command.add_flag("--json", console.json, "Results as JSON on stdout, no progress");
  command
      .add_option_function<std::string>(
          "--progress",
          [&console](const std::string& when) {
            console.progress = when == "always"  ? ShowProgress::kAlways
                               : when == "never" ? ShowProgress::kNever
                                                 : ShowProgress::kAuto;
          },
          "auto (on a terminal), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

void AddMemoryOption(CLI::App& command, uint64_t& memory_mib) {
  command.add_option("--memory", memory_mib, "Bound of anonymous memory, MiB")
      ->check(CLI::Range(uint64_t{192}, uint64_t{1} << 24))
      ->capture_default_str();
}

uint64_t BlobBytes(uint64_t memory_mib, int threads) {
  const uint64_t fixed = kProgramMib + kWorkerMib * static_cast<uint64_t>(threads);
  return (memory_mib > fixed ? memory_mib - fixed : 1) << 20;
}

void AddThreadCountOption(CLI::App& command, int& threads) {
  threads = 0;
  command
      .add_option("--threads", threads,
                  "Threads; 0: the machine's, as many as half of --memory has scratch for")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

int ThreadsWithin(uint64_t memory_mib, int asked) {
  if (asked > 0) return asked;
  const uint64_t machine = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp<uint64_t>(memory_mib / 2 / kWorkerMib, 1, machine));
}

int RunCommandLine(int argc, char** argv) {
  Environment env;
  env.filesystem = MakePosixFilesystem();
  env.console.clock = &env.clock;

  CLI::App app{
      "PULSELoCo: trainers exchange, and inference workers fetch, only the weights that change.\n"
      "Exit codes: 0 done, 2 usage, 3 not found, 4 corrupt, 5 stale base, 6 unreachable, 7 lost "
      "the "
      "race,\n8 timed out, 9 no space, 10 no permission, 11 not supported, 130 interrupted, 1 "
      "anything else."};
  app.name("pulseloco");
  app.set_version_flag("--version", VersionFacts, "The version, what is compiled in, what is here");
  app.require_subcommand(1);
  Action chosen;
  for (const auto add : kCommands) add(app, env, chosen);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    PrintError(fmt::format("{}; see pulseloco --help", error.what()));
    return static_cast<int>(ExitCode::kUsage);
  }
  const Status status = chosen();
  if (!status.ok()) PrintError(std::string(ToStd(status.message())));
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace pulse
