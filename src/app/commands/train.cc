#include <fmt/format.h>

#include "app/command_line.h"
#include "app/interrupt.h"
#include "app/ranks.h"
#include "app/training.h"
#include "collective/mpi/mpi_communicator.h"

namespace pulse {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string device;
  bool help_config = false;
  bool resume = false;
};

Status Train(Environment& env, const TrainArguments& a) {
  constexpr int64_t kStartTimeoutMs = 120'000;  // for the last rank to be started
  if (a.help_config) {
    fmt::print("{}", ConfigHelp());
    return OkStatus();
  }
  if (a.config.empty())
    return InvalidArgument("train: CONFIG is missing; see pulseloco train --help");
  const std::atomic<bool>& stop_requested = CatchInterrupts();
  return RunAsRank(env, [&](MpiSession& session, Communicator& communicator) {
    const StatusOr<RunConfig> config = LoadConfig(*env.filesystem, a.config, a.overrides);
    const auto open_group = [&](const std::vector<int>& members) {
      return OpenMpiGroup(session, members, {}, Deadline::After(env.clock, kStartTimeoutMs));
    };
    return RunTraining(config, {communicator, open_group, *env.filesystem, env.clock, env.console,
                                stop_requested, a.resume});
  });
}

}  // namespace

void AddTrain(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "train", "Train: one rank of the job; start K trainers with mpirun -n K or srun -n K");
  auto a = std::make_shared<TrainArguments>();
  command->add_option("CONFIG", a->config, "YAML configuration, such as configs/wordle.yaml");
  command->add_option("--set", a->overrides,
                      "Override a key: --set loco.local_steps=4 (repeatable)");
  command->add_option("--device", a->device, "cpu or cuda; as --set device=...");
  command->add_flag("--resume", a->resume,
                    "Continue the run of run.dir from its newest checkpoint; start it where there "
                    "is none yet");
  command->add_flag("--help-config", a->help_config, "List every configuration key and exit");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] {
    if (!a->device.empty()) a->overrides.push_back("device=" + a->device);
    chosen = [&env, a] { return Train(env, *a); };
  });
}

}  // namespace pulse
