#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/commands/bench.h"
#include "collective/in_process.h"
#include "core/rng.h"
#include "loco/exchange/adaptive.h"

namespace pulse {
namespace {

using loco::ExchangeKind;

struct BenchExchangeArguments {
  std::vector<uint32_t> trainers = {2, 4, 8, 16, 32, 64, 128, 256};
  std::vector<double> densities = {0.01, 0.05, 0.14};
  uint32_t sites = 1;
  double rate_mbit = 200;
  double step_ms = 1;
  uint64_t elements = 1'000'000'000;
  uint64_t measured_elements = 20'000;
  uint32_t measured_trainers = 64;
};

// One trainer's update: each element with probability `density`, independently of other trainers.
SparseUpdate RandomUpdate(uint64_t elements, double density, uint32_t trainer) {
  Rng rng(1, {.use = RngUse::kSynthetic, .trainer = trainer});
  std::vector<float> dense(elements);
  for (float& value : dense) {
    if (rng.Uniform() < density) value = 1e-5f * rng.Normal();
  }
  return loco::SparseFromNonZero(dense);
}

loco::Sites SitesOf(const BenchExchangeArguments& a, uint32_t trainers) {
  std::vector<uint32_t> site_of(trainers);
  const uint32_t sites = std::min(a.sites, trainers);
  for (uint32_t k = 0; k < trainers; ++k) site_of[k] = k * sites / trainers;
  return loco::GroupBySite(site_of, trainers);
}

// What ranks on threads of this process really sent each other.
struct Measured {
  uint64_t most_received = 0;  // bytes, by one rank
  uint64_t entries = 0;
  uint64_t contribution = 0;  // bytes of all updates, each once
};

StatusOr<Measured> Measure(ExchangeKind kind, const loco::Sites& sites,
                           const std::vector<SparseUpdate>& updates) {
  PULSE_ASSIGN_OR_RETURN(auto group, MakeInProcessGroup(static_cast<int>(updates.size())));
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  Measured measured;
  std::vector<uint64_t> entries;
  for (const SparseUpdate& update : updates) {
    entries.push_back(update.entries());
    measured.entries += update.entries();
  }
  const std::vector<uint8_t> all(updates.size(), 1);
  std::vector<loco::Traffic> traffic(updates.size());
  std::vector<Status> results(updates.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < updates.size(); ++k) {
    threads.emplace_back([&, k] {
      const auto exchange = loco::MakeExchange(kind, *group[k], kernels, sites, uint64_t{1} << 40);
      std::vector<float> sum(updates[k].elements);
      results[k] = exchange->Sum({.sparse = &updates[k], .dense = {}}, {all, entries}, sum,
                                 Deadline::Never());
      traffic[k] = exchange->traffic();
      if (!results[k].ok()) group[k].reset();  // the others need not wait
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < updates.size(); ++k) {
    PULSE_RETURN_IF_ERROR(results[k]);
    measured.most_received = std::max(measured.most_received, traffic[k].received);
    measured.contribution += traffic[k].contribution;
  }
  return measured;
}

struct Row {
  double density = 0;
  uint32_t trainers = 0;
  loco::Estimate modelled = {};  // for `elements`
  bool fastest = false;          // of this density and these trainers
  double modelled_share = 0;  // received by the rank that receives most, in dense arrays (4N bytes)
  double measured_share = -1;  // the same, counted; below 0: not measured
};

class Bench {
 public:
  explicit Bench(const BenchExchangeArguments& arguments) : a_(arguments) {}

  StatusOr<std::vector<Row>> Run() {
    for (const double density : a_.densities) {
      for (const uint32_t trainers : a_.trainers) {
        PULSE_RETURN_IF_ERROR(RunCase(density, trainers));
      }
    }
    return std::move(rows_);
  }

 private:
  Status RunCase(double density, uint32_t trainers) {
    const loco::Sites sites = SitesOf(a_, trainers);
    // Bytes of an entry at this density, which all cases share: from two trainers where K of them
    // would take too long.
    const bool measure = trainers <= a_.measured_trainers;
    std::vector<SparseUpdate> updates;
    for (uint32_t k = 0; k < (measure ? trainers : 1); ++k) {
      updates.push_back(RandomUpdate(a_.measured_elements, density, k));
    }
    std::vector<Row> rows;
    double entry_bytes = 0;
    for (const ExchangeKind kind : loco::kExchangeKinds) {
      if (kind == ExchangeKind::kSiteMerged && sites.size() == 1) continue;
      Row row{.density = density, .trainers = trainers};
      const loco::Sites measured_sites = measure ? sites : loco::GroupBySite({}, 1);
      if (measure || kind == loco::kExchangeKinds.front()) {
        PULSE_ASSIGN_OR_RETURN(const Measured measured, Measure(kind, measured_sites, updates));
        if (measure) {
          row.measured_share = static_cast<double>(measured.most_received) /
                               (4.0 * static_cast<double>(a_.measured_elements));
        }
        if (kind == loco::kExchangeKinds.front() && measured.entries > 0) {
          entry_bytes =
              static_cast<double>(measured.contribution) / static_cast<double>(measured.entries);
        }
      }
      row.modelled = Model(kind, density, trainers, sites, entry_bytes);
      row.modelled_share = row.modelled.rank_bytes / (4.0 * static_cast<double>(a_.elements));
      rows.push_back(row);
    }
    std::min_element(rows.begin(), rows.end(), [](const Row& x, const Row& y) {
      return x.modelled.seconds < y.modelled.seconds;
    })->fastest = true;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    return OkStatus();
  }

  loco::Estimate Model(ExchangeKind kind, double density, uint32_t trainers,
                       const loco::Sites& sites, double entry_bytes) const {
    const double n = density * static_cast<double>(a_.elements);
    const std::vector<uint64_t> entries(trainers, static_cast<uint64_t>(n));
    const std::vector<uint64_t> bytes(trainers, static_cast<uint64_t>(n * entry_bytes));
    // Independent entries: each element escapes all K trainers with probability (1 - d)^K.
    const double touched = 1 - std::pow(1 - density, trainers);
    const loco::ChoiceFacts facts{.elements = a_.elements,
                                  .entries = entries,
                                  .payload_bytes = bytes,
                                  .union_share = touched / (density * trainers)};
    const loco::LinkModel links{.link_bytes_per_second = a_.rate_mbit * 1e6 / 8,
                                .step_seconds = a_.step_ms * 1e-3};
    return loco::EstimateExchange(kind, facts, sites, links);
  }

  const BenchExchangeArguments& a_;
  std::vector<Row> rows_;
};

void PrintTable(const BenchExchangeArguments& a, const std::vector<Row>& rows) {
  fmt::print(
      "{} elements, {} Mbit/s a link, {} ms a step, {} sites; independent entries.\n"
      "received: by the rank that receives most, in dense arrays (4N bytes); counted over {} "
      "elements.\n\n"
      "{:>8} {:>9}  {:<18} {:>10} {:>10} {:>12}\n",
      a.elements, a.rate_mbit, a.step_ms, a.sites, a.measured_elements, "density", "trainers",
      "exchange", "modelled", "counted", "seconds");
  for (const Row& row : rows) {
    fmt::print("{:>7.1f}% {:>9}  {:<18} {:>10.3f} {:>10} {:>12.2f}{}\n", 100 * row.density,
               row.trainers, loco::NameOf(row.modelled.kind), row.modelled_share,
               row.measured_share < 0 ? "-" : fmt::format("{:.3f}", row.measured_share),
               row.modelled.seconds, row.fastest ? " *" : "");
  }
}

void PrintJson(const std::vector<Row>& rows) {
  nlohmann::json json = nlohmann::json::array();
  for (const Row& row : rows) {
    json.push_back({{"density", row.density},
                    {"trainers", row.trainers},
                    {"exchange", loco::NameOf(row.modelled.kind)},
                    {"modelled_seconds", row.modelled.seconds},
                    {"modelled_link_bytes", row.modelled.link_bytes},
                    {"modelled_received", row.modelled_share},
                    {"fastest", row.fastest}});
    if (row.measured_share >= 0) json.back()["counted_received"] = row.measured_share;
  }
  fmt::print("{}\n", json.dump(2));
}

Status BenchExchange(Environment& env, const BenchExchangeArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const std::vector<Row> rows, Bench(a).Run());
  if (env.console.json) {
    PrintJson(rows);
  } else {
    PrintTable(a, rows);
  }
  return OkStatus();
}

}  // namespace

void AddBenchExchange(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "exchange", "What each exchange costs by trainers and density: where they cross over");
  auto a = std::make_shared<BenchExchangeArguments>();
  command->add_option("--trainers", a->trainers, "Numbers of trainers")
      ->check(CLI::Range(1, 1024))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--density", a->densities, "Shares of entries that a gate lets through")
      ->check(CLI::Range(1e-6, 1.0))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--sites", a->sites, "Sites, of equally many trainers, one slow link each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--rate-mbit", a->rate_mbit, "Rate of a link, Mbit/s")
      ->check(CLI::Range(0.001, 1e7))
      ->capture_default_str();
  command->add_option("--step-ms", a->step_ms, "Latency of a step, ms")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--elements", a->elements, "Parameters of the modelled job")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--counted-elements", a->measured_elements, "Parameters of the counted one")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 28))
      ->capture_default_str();
  command
      ->add_option("--counted-trainers", a->measured_trainers,
                   "Largest job to run on threads and count; larger ones are modelled only")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchExchange(env, *a); }; });
}

}  // namespace pulse
