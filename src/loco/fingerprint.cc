#include "loco/fingerprint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/arithmetic/arithmetic.h"

namespace pulse::loco {
namespace {

constexpr size_t kFieldsNamed = 3;  // more would hide the first; the rest is counted
// No bit of the state after a round depends on these: a resumed run may change them.
constexpr std::string_view kRounds = "rounds", kRanksPerTrainer = "ranks_per_trainer";
constexpr size_t kValueChars = 80;  // a peer's text may be anything: bound what is printed of it

using Fields = std::map<std::string, std::string>;

// The lines of one rank's text; a line without '=' is a key without value.
Fields Parse(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t equals = std::min(line.find('='), line.size());
    fields[std::string(line.substr(0, equals))] =
        equals < line.size() ? line.substr(equals + 1) : std::string_view();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return fields;
}

// Nothing if the field is missing.
std::optional<std::string> ValueOf(const Fields& fields, const std::string& key) {
  const auto at = fields.find(key);
  if (at == fields.end()) return std::nullopt;
  return at->second;
}

// "h is 8 on rank 0, 1 and 4 on rank 2", in order of the first rank of each.
std::string DescribeValues(const std::string& key, const std::vector<Fields>& ranks) {
  std::vector<std::pair<std::optional<std::string>, std::vector<size_t>>> groups;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto value = ValueOf(ranks[r], key);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& known) { return known.first == value; });
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(r);
  }
  std::vector<std::string> parts;
  for (const auto& [value, members] : groups) {
    parts.push_back(fmt::format("{} on rank {}", value.value_or("missing").substr(0, kValueChars),
                                fmt::join(members, ", ")));
  }
  return fmt::format("{} is {}", key.substr(0, kValueChars), fmt::join(parts, " and "));
}

// The first few, and how many more there are.
std::string FirstOf(const std::vector<std::string>& differences) {
  const size_t named = std::min(differences.size(), kFieldsNamed);
  const std::string more =
      differences.size() > named ? fmt::format("; and {} more", differences.size() - named) : "";
  return fmt::format(
      "{}{}",
      fmt::join(differences.begin(), differences.begin() + static_cast<ptrdiff_t>(named), "; "),
      more);
}

}  // namespace

void Fingerprint::Add(std::string_view key, std::string_view value) {
  std::string line = fmt::format("{}={}", key, value);
  std::replace(line.begin(), line.end(), '\n', ' ');
  text_ += line + '\n';
}

Fingerprint FingerprintOf(const Options& options, uint32_t trainers, const ModelSchema& schema) {
  Fingerprint fingerprint;
  const auto add = [&](std::string_view key, const auto& value) {
    fingerprint.Add(key, fmt::format("{}", value));  // shortest form that reads back the same
  };
  add("arithmetic_contract", kernels::kArithmeticContractVersion);
  add("mode", NameOf(options.mode));
  add("trainers", trainers);
  add(kRanksPerTrainer, options.ranks_per_trainer);
  add("micro_batches", options.micro_batches);
  add("sites", fmt::format("{}", fmt::join(options.sites, " ")));
  add("exchange.algorithm", NameOf(options.exchange));
  add("exchange.memory_bytes", options.exchange_memory_bytes);
  add("codec", NameOf(options.codec));
  add("values", NameOfValues(options.rounded_values));
  add("seed", options.seed);
  add(kRounds, options.rounds);
  add("local_steps", options.local_steps);
  add("gate_open", options.gate_open);
  add("rollout_weights", NameOf(options.rollout_weights));
  add("on_non_finite", NameOf(options.on_non_finite));
  add("on_trainer_error", NameOf(options.on_trainer_error));
  add("inner.learning_rate", options.inner.learning_rate);
  add("inner.beta1", options.inner.beta1);
  add("inner.beta2", options.inner.beta2);
  add("inner.epsilon", options.inner.epsilon);
  add("inner.weight_decay", options.inner.weight_decay);
  add("outer.learning_rate", options.outer.learning_rate);
  add("outer.momentum", options.outer.momentum);
  add("elements", schema.elements());
  add("schema", SchemaDigest(schema).Hex());
  for (const auto& [key, value] : options.agreed) add(key, value);
  return fingerprint;
}

Status ExplainDifference(std::span<const std::string_view> texts) {
  std::vector<Fields> ranks;
  std::set<std::string> keys;
  for (const std::string_view text : texts) {
    ranks.push_back(Parse(text));
    for (const auto& [key, value] : ranks.back()) keys.insert(key);
  }
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    const auto first = ValueOf(ranks.front(), key);
    const auto differs = [&](const Fields& fields) { return ValueOf(fields, key) != first; };
    if (std::any_of(ranks.begin(), ranks.end(), differs)) {
      differences.push_back(DescribeValues(key, ranks));
    }
  }
  if (differences.empty()) return OkStatus();
  return InvalidArgument(
      "the ranks' configurations differ: {}; start all ranks with one configuration",
      FirstOf(differences));
}

Status ExplainChange(std::string_view what, std::string_view then, std::string_view now) {
  const Fields before = Parse(then), after = Parse(now);
  std::set<std::string> keys;
  for (const Fields* fields : {&before, &after}) {
    for (const auto& [key, value] : *fields) keys.insert(key);
  }
  std::erase_if(keys, [](const std::string& key) {
    return key == kRounds || key == kRanksPerTrainer || key.starts_with("checkpoint.") ||
           key.starts_with("exchange.");
  });
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    const auto old_value = ValueOf(before, key), new_value = ValueOf(after, key);
    if (old_value == new_value) continue;
    differences.push_back(fmt::format("{} is {} there and {} here", key.substr(0, kValueChars),
                                      old_value.value_or("missing").substr(0, kValueChars),
                                      new_value.value_or("missing").substr(0, kValueChars)));
  }
  if (differences.empty()) return OkStatus();
  return InvalidArgument("{} is of another configuration: {}", what, FirstOf(differences));
}

}  // namespace pulse::loco
