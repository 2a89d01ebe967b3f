#include <fmt/format.h>

#include "app/command_line.h"
#include "app/evaluation.h"
#include "app/parts.h"

namespace pulse {
namespace {

struct EvaluateArguments {
  std::string config, weights;
  std::vector<std::string> overrides;
};

Status Evaluate(Environment& env, const EvaluateArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const RunConfig config,
                         LoadConfig(*env.filesystem, a.config, a.overrides));
  PULSE_ASSIGN_OR_RETURN(const Metrics metrics,
                         EvaluateCheckpoint(*env.filesystem, config, a.weights));
  fmt::print("{}", EvaluationText(metrics, env.console.json));
  return OkStatus();
}

}  // namespace

void AddEvaluate(CLI::App& app, Environment& env, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("evaluate", "Measure a checkpoint on the task of a configuration");
  auto a = std::make_shared<EvaluateArguments>();
  command->add_option("CONFIG", a->config, "The run's YAML configuration")->required();
  command->add_option("--weights", a->weights, "Checkpoint: FP32 masters or the BF16 view")
      ->required();
  command->add_option("--set", a->overrides, "Override a key: evaluate.samples=10000");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return Evaluate(env, *a); }; });
}

}  // namespace pulse
