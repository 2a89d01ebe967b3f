#include "app/config.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "app/duration.h"

namespace pulse {
namespace {

// One key: how to read it from a scalar (or list), and how to write it.
struct Field {
  std::string path;
  std::string expected;  // "a whole number from 1 to 10", for errors and help
  std::string meaning;
  std::function<bool(const YAML::Node&)> read;  // false: not what was expected
  std::function<std::string()> write;
};

// The text of a plain scalar, or nothing for maps, lists and nulls.
std::optional<std::string> ScalarOf(const YAML::Node& node) {
  if (!node.IsScalar()) return std::nullopt;
  return node.Scalar();
}

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

Field Whole(std::string path, uint64_t* to, uint64_t low, uint64_t high, std::string meaning) {
  return {std::move(path), fmt::format("a whole number from {} to {}", low, high),
          std::move(meaning),
          [=](const YAML::Node& node) {
            const auto text = ScalarOf(node);
            const auto value = text ? WholeNumber(*text) : std::nullopt;
            if (!value || *value < low || *value > high) return false;
            *to = *value;
            return true;
          },
          [=] { return fmt::format("{}", *to); }};
}

Field Real(std::string path, double* to, double low, double high, std::string meaning) {
  return {std::move(path), fmt::format("a number from {} to {}", low, high), std::move(meaning),
          [=](const YAML::Node& node) {
            double value = 0;
            if (!node.IsScalar() || !YAML::convert<double>::decode(node, value)) return false;
            if (!(value >= low && value <= high)) return false;  // NaN fails too
            *to = value;
            return true;
          },
          [=] { return fmt::format("{}", *to); }};
}

Field Flag(std::string path, bool* to, std::string meaning) {
  return {std::move(path), "true or false", std::move(meaning),
          [=](const YAML::Node& node) {
            const auto text = ScalarOf(node);
            if (text != "true" && text != "false") return false;
            *to = text == "true";
            return true;
          },
          [=] { return *to ? "true" : "false"; }};
}

std::string Quoted(const std::string& text) {
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

Field Text(std::string path, std::string* to, std::string meaning) {
  return {std::move(path), "a text", std::move(meaning),
          [=](const YAML::Node& node) {
            const auto text = ScalarOf(node);
            if (text) *to = *text;
            return text.has_value();
          },
          [=] { return Quoted(*to); }};
}

Field OneOf(std::string path, std::string* to, std::vector<std::string> choices,
            std::string meaning) {
  return {std::move(path), fmt::format("one of {}", fmt::join(choices, ", ")), std::move(meaning),
          [=](const YAML::Node& node) {
            const auto text = ScalarOf(node);
            if (!text || std::find(choices.begin(), choices.end(), *text) == choices.end()) {
              return false;
            }
            *to = *text;
            return true;
          },
          [=] { return *to; }};
}

Field Duration(std::string path, uint64_t* to_ms, uint64_t low_ms, uint64_t high_ms,
               std::string meaning) {
  return {
      std::move(path),
      fmt::format("a duration with its unit (500ms, 30s, 5m) from {}ms to {}ms", low_ms, high_ms),
      std::move(meaning),
      [=](const YAML::Node& node) {
        const auto text = ScalarOf(node);
        if (!text) return false;
        const auto value_ms = ParseDurationMs(*text);
        if (!value_ms.ok() || *value_ms < low_ms || *value_ms > high_ms) return false;
        *to_ms = *value_ms;
        return true;
      },
      [=] { return fmt::format("{}ms", *to_ms); }};
}

Field WholeList(std::string path, std::vector<uint64_t>* to, uint64_t high, std::string meaning) {
  return {std::move(path),
          fmt::format("a list of whole numbers up to {}, such as [0, 0, 1, 1]", high),
          std::move(meaning),
          [=](const YAML::Node& node) {
            if (!node.IsSequence()) return false;
            std::vector<uint64_t> values;
            for (const YAML::Node& item : node) {
              const auto text = ScalarOf(item);
              const auto value = text ? WholeNumber(*text) : std::nullopt;
              if (!value || *value > high) return false;
              values.push_back(*value);
            }
            *to = values;
            return true;
          },
          [=] { return fmt::format("[{}]", fmt::join(*to, ", ")); }};
}

std::vector<Field> RunFields(RunConfig& c) {
  return {
      Text("run.dir", &c.run.dir, "folder of the run: configuration, metrics, weights, bucket"),
      Text("run.name", &c.run.name, "the run's name in the bucket"),
      Whole("run.seed", &c.run.seed, 0, std::numeric_limits<int64_t>::max(),
            "seed of all randomness; the same seed gives the same bytes"),
  };
}

// As loco/options.h spells them (ValuesFromName).
std::vector<std::string> ValueNames() {
  std::vector<std::string> names = {"exact"};
  for (int q = 0; q <= 12; ++q) names.push_back(fmt::format("ulp:{}", q));
  return names;
}

std::vector<Field> LocoFields(RunConfig& c) {
  return {
      OneOf("loco.mode", &c.loco.mode, {"pulseloco", "diloco", "ddp"}, "what trainers exchange"),
      Whole("loco.rounds", &c.loco.rounds, 1, 1'000'000'000, "rounds of the whole run"),
      Whole("loco.local_steps", &c.loco.local_steps, 1, 100'000, "H: optimizer steps per round"),
      Real("loco.outer_learning_rate", &c.loco.outer_learning_rate, 0, 10, "of the outer SGD"),
      Real("loco.outer_momentum", &c.loco.outer_momentum, 0, 0.9999, "Nesterov, of the outer SGD"),
      Flag("loco.open_gate", &c.loco.open_gate, "pulseloco with every entry let through"),
      OneOf("loco.rollout_weights", &c.loco.rollout_weights, {"global", "local"},
            "whose weights make the rollouts: the round's theta, or the trainer's own"),
      OneOf("loco.on_non_finite", &c.loco.on_non_finite, {"drop", "stop"},
            "a trainer with a non-finite gradient: drop its round, or stop the job"),
      OneOf("loco.on_trainer_error", &c.loco.on_trainer_error, {"drop", "stop"},
            "a trainer whose step fails: drop its round, or stop the job"),
      WholeList("loco.sites", &c.loco.sites, 65'535,
                "site of each trainer; empty: one site. Part of the sum's order"),
      Text("loco.sites_by", &c.loco.sites_by,
           "list: as loco.sites says; host: each host is a site; env:NAME: by the value of an "
           "environment variable, such as SLURM_CLUSTER_NAME"),
      OneOf("loco.inside_sites", &c.loco.inside_sites, {"mpi", "nccl"},
            "what carries exchanges between trainers of one site; nccl: with device cuda, a card "
            "each. No bit depends on it"),
      OneOf("loco.exchange", &c.loco.exchange,
            {"auto", "sparse-all-gather", "owner-partitioned", "site-merged", "dense"},
            "how sums are made; auto: by estimate, dense in diloco and ddp. No bit depends on it"),
      OneOf("loco.codec", &c.loco.codec, {"small", "fast"},
            "how sparse updates are coded: fewest bytes, or least processor time"),
      OneOf("loco.values", &c.loco.values, ValueNames(),
            "of sparse updates: exact as in the paper, or (beyond it) rounded to 2^-q of the BF16 "
            "spacing, the rest kept in the residual"),
      Whole("loco.exchange_memory_mib", &c.loco.exchange_memory_mib, 1, uint64_t{1} << 24,
            "bound of a rank's buffers in an exchange, MiB; longer arrays go in segments"),
      Whole("loco.ranks_per_trainer", &c.loco.ranks_per_trainer, 1, 1024,
            "ranks that share a trainer's micro-batches and state; a power of two"),
      Whole("loco.threads", &c.loco.threads, 1, 1024,
            "of a rank, for its passes over weights. No bit depends on it"),
      Duration("loco.deadline", &c.loco.deadline_ms, 100, 86'400'000,
               "longest silence of another rank, a round's computing included"),
      Duration(
          "loco.long_deadline", &c.loco.long_deadline_ms, 100, 604'800'000,
          "longest wait for a rank that says it is busy (publishing, checkpoints), and for the "
          "start of a run, where rank 0 makes the weights"),
  };
}

std::vector<Field> AdamFields(RunConfig& c) {
  return {
      Real("adam.learning_rate", &c.adam.learning_rate, 0, 1, "of the local AdamW steps"),
      Real("adam.beta1", &c.adam.beta1, 0, 0.99999, "decay of the first moment"),
      Real("adam.beta2", &c.adam.beta2, 0, 0.999999, "decay of the second moment"),
      Real("adam.epsilon", &c.adam.epsilon, 0, 1, "added to the root of the second moment"),
      Real("adam.weight_decay", &c.adam.weight_decay, 0, 10, "decoupled"),
  };
}

std::vector<Field> TrainerFields(RunConfig& c) {
  auto& t = c.trainer;
  return {
      OneOf("trainer.kind", &t.kind, {"wordle", "synthetic"}, "who computes gradients"),
      Whole("trainer.threads", &t.threads, 1, 1024, "threads per rank"),
      Whole("trainer.micro_batches", &t.micro_batches, 1, 1024,
            "parts of a step's batch, a power of two; wordle clips the gradient of each"),
      Text("trainer.dictionary", &t.dictionary, "wordle: word list, one word a line"),
      Whole("trainer.words", &t.words, 2, 100'000, "wordle: how many words are in the game"),
      Whole("trainer.groups", &t.groups, 1, 10'000, "wordle: groups per trainer and step"),
      Whole("trainer.games_per_group", &t.games_per_group, 2, 10'000,
            "wordle: games of a group; they share secret and opening"),
      Real("trainer.clip_ratio", &t.clip_ratio, 0.001, 10, "wordle: PPO's clip of the ratio"),
      Real("trainer.clip_gradient", &t.clip_gradient, 0, 1e9,
           "wordle: largest norm of a gradient; 0: unbounded"),
      Whole("trainer.warm_start_steps", &t.warm_start_steps, 0, 1'000'000,
            "wordle: supervised steps before the run"),
      Whole("trainer.warm_start_games", &t.warm_start_games, 1, 100'000,
            "wordle: games per supervised step"),
      Real("trainer.warm_start_learning_rate", &t.warm_start_learning_rate, 0, 1,
           "wordle: peak, with a cosine"),
      Whole("trainer.warm_start_threads", &t.warm_start_threads, 1, 1024,
            "wordle: threads of rank 0 during the warm start, while the others wait"),
      Whole("trainer.elements", &t.elements, 1, uint64_t{1} << 40, "synthetic: parameters"),
      Real("trainer.gradient_scale", &t.gradient_scale, 0, 1e30, "synthetic: size of gradients"),
  };
}

std::vector<Field> OtherFields(RunConfig& c) {
  return {
      Whole("checkpoint.every", &c.checkpoint.every, 0, 1'000'000,
            "rounds from checkpoint to checkpoint; 0: none, and no --resume"),
      Whole("checkpoint.keep", &c.checkpoint.keep, 1, 1'000'000, "how many checkpoints stay"),
      Text("checkpoint.folder", &c.checkpoint.folder,
           "folder of the checkpoints, shared by all ranks or each host's own; empty: "
           "<run.dir>/checkpoints"),
      Flag("publish.enabled", &c.publish.enabled, "whether versions are published at all"),
      Text("publish.bucket", &c.publish.bucket, "URI of the bucket; empty: <run.dir>/bucket"),
      Whole("publish.every", &c.publish.every, 1, 1'000'000, "rounds from version to version"),
      OneOf("publish.codec", &c.publish.codec, {"auto", "fast", "small"},
            "how deltas are coded; auto: what followers are ready with soonest"),
      Flag("publish.single_writer", &c.publish.single_writer,
           "allow a store without conditional puts: you promise that nobody else publishes"),
      Real("publish.anchor_share", &c.publish.anchor_share, 0.01, 1000,
           "a new anchor when the deltas since the last weigh this share of it"),
      Whole("publish.anchor_every", &c.publish.anchor_every, 1, 1'000'000,
            "longest chain of deltas behind an anchor"),
      Whole("publish.keep", &c.publish.keep, 0, 1'000'000'000,
            "versions to keep in the bucket, with what they stand on; 0: all"),
      Whole("evaluate.samples", &c.evaluate.samples, 0, 10'000'000,
            "fresh samples that the first and the last weights are measured on; 0: none"),
      OneOf("device", &c.device, {"cpu", "cuda"},
            "where weights and optimizer state live and are worked on: the same bits; cuda: each "
            "rank on one of its host's cards, in turn"),
      Text("kernels", &c.kernels, "auto, simd or reference: the same bits, not the same speed"),
      OneOf("log_level", &c.log_level, {"trace", "debug", "info", "warn", "error", "off"},
            "how much to say on stderr"),
  };
}

std::vector<Field> FieldsOf(RunConfig& config) {
  std::vector<Field> all;
  for (auto* part : {RunFields, LocoFields, AdamFields, TrainerFields, OtherFields}) {
    for (Field& field : part(config)) all.push_back(std::move(field));
  }
  return all;
}

const Field* FindField(const std::vector<Field>& fields, std::string_view path) {
  for (const Field& field : fields) {
    if (field.path == path) return &field;
  }
  return nullptr;
}

bool IsSection(const std::vector<Field>& fields, std::string_view path) {
  const std::string prefix = fmt::format("{}.", path);
  for (const Field& field : fields) {
    if (field.path.starts_with(prefix)) return true;
  }
  return false;
}

Status UnknownKey(const std::vector<Field>& fields, std::string_view where, std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string section(dot == std::string_view::npos ? "" : path.substr(0, dot + 1));
  std::set<std::string> known;
  for (const Field& field : fields) {
    if (!field.path.starts_with(section)) continue;
    const std::string rest = field.path.substr(section.size());
    known.insert(rest.substr(0, rest.find('.')));
  }
  return InvalidArgument("{}: unknown key \"{}\"; known here: {}", where, path,
                         fmt::join(known, ", "));
}

Status ReadField(const std::vector<Field>& fields, std::string_view where, const std::string& path,
                 const YAML::Node& node) {
  const Field* field = FindField(fields, path);
  if (field == nullptr) return UnknownKey(fields, where, path);
  if (field->read(node)) return OkStatus();
  const std::string got = node.IsScalar() ? fmt::format("\"{}\"", node.Scalar())
                          : node.IsMap()  ? "a section"
                          : node.IsNull() ? "nothing"
                                          : "a list";
  return InvalidArgument("{}: {} must be {}, not {}", where, path, field->expected, got);
}

std::string Where(std::string_view source, const YAML::Mark& mark) {
  return mark.line < 0 ? std::string(source) : fmt::format("{}:{}", source, mark.line + 1);
}

Status ReadMap(const std::vector<Field>& fields, std::string_view source, const std::string& prefix,
               const YAML::Node& map, std::set<std::string>& seen) {
  for (const auto& entry : map) {
    const std::string where = Where(source, entry.first.Mark());
    if (!entry.first.IsScalar()) return InvalidArgument("{}: a key must be a plain name", where);
    const std::string path = prefix + entry.first.Scalar();
    if (!seen.insert(path).second) return InvalidArgument("{}: {} is given twice", where, path);
    if (IsSection(fields, path)) {
      if (entry.second.IsMap()) {
        PULSE_RETURN_IF_ERROR(ReadMap(fields, source, path + ".", entry.second, seen));
      } else if (!entry.second.IsNull()) {
        return InvalidArgument("{}: {} is a section of keys, not a value", where, path);
      }
      continue;
    }
    PULSE_RETURN_IF_ERROR(ReadField(fields, where, path, entry.second));
  }
  return OkStatus();
}

Status ReadOverride(const std::vector<Field>& fields, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgument("--set {}: expected KEY=VALUE, such as loco.local_steps=4", text);
  }
  const std::string where = fmt::format("--set {}", text);
  try {
    return ReadField(fields, where, text.substr(0, equals), YAML::Load(text.substr(equals + 1)));
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}: {}", where, e.msg);
  }
}

}  // namespace

StatusOr<RunConfig> ParseConfig(std::string_view text, std::string_view source,
                                const std::vector<std::string>& overrides) {
  RunConfig config;
  const std::vector<Field> fields = FieldsOf(config);
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    std::set<std::string> seen;
    if (root.IsMap()) {
      PULSE_RETURN_IF_ERROR(ReadMap(fields, source, "", root, seen));
    } else if (!root.IsNull()) {
      return InvalidArgument("{}: expected keys and values, such as \"loco:\"", source);
    }
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}: {}", Where(source, e.mark), e.msg);
  }
  for (const std::string& override : overrides) {
    PULSE_RETURN_IF_ERROR(ReadOverride(fields, override));
  }
  return config;
}

StatusOr<RunConfig> LoadConfig(Filesystem& fs, const std::string& path,
                               const std::vector<std::string>& overrides) {
  constexpr uint64_t kMaxConfigBytes = 1 << 20;  // by hand nobody writes more
  PULSE_ASSIGN_OR_RETURN(const Bytes text, ReadFile(fs, path, kMaxConfigBytes));
  return ParseConfig(AsText(text), path, overrides);
}

std::string ConfigToYaml(const RunConfig& config) {
  RunConfig copy = config;
  std::string out, section;
  for (const Field& field : FieldsOf(copy)) {
    const size_t dot = field.path.find('.');
    const std::string own = dot == std::string::npos ? "" : field.path.substr(0, dot);
    if (own != section && !own.empty()) out += own + ":\n";
    section = own;
    out += own.empty() ? field.path : "  " + field.path.substr(dot + 1);
    out += ": " + field.write() + "\n";
  }
  return out;
}

std::map<std::string, std::string> AgreedTrainerSettings(const RunConfig& config) {
  // Where a host keeps its dictionary and how many threads it has are its own business.
  const std::set<std::string> own = {"trainer.dictionary", "trainer.threads",
                                     "trainer.warm_start_threads"};
  RunConfig copy = config;
  std::map<std::string, std::string> settings;
  for (const Field& field : TrainerFields(copy)) {
    if (!own.contains(field.path)) settings[field.path] = field.write();
  }
  return settings;
}

std::string ConfigHelp() {
  RunConfig defaults;
  std::string out;
  for (const Field& field : FieldsOf(defaults)) {
    out += fmt::format("{} = {}\n    {}\n    expects {}\n", field.path, field.write(),
                       field.meaning, field.expected);
  }
  return out;
}

}  // namespace pulse
