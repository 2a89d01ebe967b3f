#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands/bench.h"
#include "collective/checked.h"
#include "collective/mpi/mpi_communicator.h"
#include "core/rng.h"
#include "loco/exchange/adaptive.h"

namespace pulse {
namespace {

using loco::ExchangeKind;

struct BenchOverlapArguments {
  uint64_t elements = uint64_t{32} << 20;
  double density = 0.05;
  uint64_t repeats = 5;
  uint32_t sites = 1;
  std::vector<std::string> exchanges = {"sparse-all-gather", "owner-partitioned", "site-merged"};
};

// Updates as a gate leaves them: steps of about 1e-5 on theta's FP32 grid, at random places.
struct OverlapData {
  OverlapData(uint64_t elements, double density, uint32_t trainer) : theta(elements) {
    Rng weights(1, {.use = RngUse::kInit});
    for (float& weight : theta) weight = 0.02f * weights.Normal();
    Rng steps(1, {.use = RngUse::kSynthetic, .trainer = trainer});
    std::vector<float> dense(elements);
    for (uint64_t i = 0; i < elements; ++i) {
      if (steps.Uniform() < density) dense[i] = theta[i] - (theta[i] - 1e-5f * steps.Normal());
    }
    update = loco::SparseFromNonZero(dense);
  }
  std::vector<float> theta;
  SparseUpdate update;
};

struct OverlapResult {
  ExchangeKind kind;
  std::vector<double> overlapped_s, plain_s;  // of the slowest rank
  uint64_t received = 0;                      // by this rank, bytes
  bool same_bits = true;
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class OverlapBench {
 public:
  OverlapBench(const BenchOverlapArguments& arguments, Communicator& communicator, Clock& clock)
      : a_(arguments), communicator_(communicator), clock_(clock) {}

  Status Prepare() {
    PULSE_ASSIGN_OR_RETURN(kernels_, kernels::ChooseKernels("auto"));
    const auto ranks = static_cast<uint32_t>(communicator_.size());
    data_.emplace(a_.elements, a_.density, static_cast<uint32_t>(communicator_.rank()));
    std::vector<uint32_t> site_of(ranks);
    for (uint32_t k = 0; k < ranks; ++k) site_of[k] = k * std::min(a_.sites, ranks) / ranks;
    sites_ = loco::GroupBySite(site_of, ranks);
    contributes_.assign(ranks, 1);
    std::vector<Bytes> rows;
    const uint64_t mine = data_->update.entries();
    PULSE_RETURN_IF_ERROR(
        communicator_.AllGather(AsBytes(std::span(&mine, 1)), rows, NewDeadline()));
    for (const Bytes& row : rows) entries_.push_back(LoadLittle<uint64_t>(row.data()));
    return OkStatus();
  }

  StatusOr<OverlapResult> Run(ExchangeKind kind) {
    OverlapResult result;
    result.kind = kind;
    std::vector<float> overlapped(a_.elements), plain(a_.elements);
    for (uint64_t i = 0; i <= a_.repeats; ++i) {  // the first is a warm-up
      PULSE_ASSIGN_OR_RETURN(const double a, Once(kind, loco::kOverlappingSegments, overlapped));
      result.received = received_;
      PULSE_ASSIGN_OR_RETURN(const double b, Once(kind, 1, plain));
      result.same_bits &= std::equal(overlapped.begin(), overlapped.end(), plain.begin());
      if (i == 0) continue;
      result.overlapped_s.push_back(a);
      result.plain_s.push_back(b);
    }
    return result;
  }

 private:
  static constexpr int64_t kDeadlineMs = 600'000;
  Deadline NewDeadline() const { return Deadline::After(clock_, kDeadlineMs); }

  StatusOr<double> Once(ExchangeKind kind, uint64_t segments, std::span<float> sum) {
    const auto exchange =
        loco::MakeExchange(kind, communicator_, kernels_, sites_, uint64_t{4} << 30, segments);
    PULSE_RETURN_IF_ERROR(communicator_.Barrier(NewDeadline()));
    const int64_t begin_ns = clock_.NowNs();
    PULSE_RETURN_IF_ERROR(exchange->Sum(
        {.sparse = &data_->update, .dense = {}},
        {.contributes = contributes_, .entries = entries_, .codec = {}, .theta = data_->theta}, sum,
        NewDeadline()));
    const double mine = static_cast<double>(clock_.NowNs() - begin_ns) * 1e-9;
    received_ = exchange->traffic().received;
    std::vector<Bytes> rows;
    PULSE_RETURN_IF_ERROR(
        communicator_.AllGather(AsBytes(std::span(&mine, 1)), rows, NewDeadline()));
    double slowest = 0;
    for (const Bytes& row : rows) {
      slowest = std::max(slowest, std::bit_cast<double>(LoadLittle<uint64_t>(row.data())));
    }
    return slowest;
  }

  const BenchOverlapArguments& a_;
  Communicator& communicator_;
  Clock& clock_;
  kernels::KernelTable kernels_;
  std::optional<OverlapData> data_;
  loco::Sites sites_;
  std::vector<uint8_t> contributes_;
  std::vector<uint64_t> entries_;
  uint64_t received_ = 0;
};

void PrintOverlap(const Environment& env, const BenchOverlapArguments& a, int trainers,
                  const std::vector<OverlapResult>& results) {
  nlohmann::json all = nlohmann::json::array();
  if (!env.console.json) {
    fmt::print(
        "{} trainers, {} elements, {:.1f} % entries; seconds of the slowest rank, medians of {} "
        "(best, worst), alternating\n\n{:<18} {:>9} {:>26} {:>26} {:>7}\n",
        trainers, a.elements, 100 * a.density, a.repeats, "exchange", "MB in",
        fmt::format("{} segments", loco::kOverlappingSegments), "1 segment", "ratio");
  }
  for (const OverlapResult& r : results) {
    const double overlapped = MedianOf(r.overlapped_s), plain = MedianOf(r.plain_s);
    const auto range = [](const std::vector<double>& s) {
      const auto [low, high] = std::minmax_element(s.begin(), s.end());
      return fmt::format("{:.2f} ({:.2f}, {:.2f})", MedianOf(s), *low, *high);
    };
    if (env.console.json) {
      all.push_back({{"exchange", loco::NameOf(r.kind)},
                     {"received_bytes", r.received},
                     {"overlapped_seconds", r.overlapped_s},
                     {"plain_seconds", r.plain_s}});
    } else {
      fmt::print("{:<18} {:>9.1f} {:>26} {:>26} {:>7.2f}\n", loco::NameOf(r.kind),
                 static_cast<double>(r.received) * 1e-6, range(r.overlapped_s), range(r.plain_s),
                 plain / overlapped);
    }
  }
  if (env.console.json) fmt::print("{}\n", all.dump(2));
}

Status BenchOverlap(Environment& env, const BenchOverlapArguments& a) {
  constexpr int64_t kStartTimeoutMs = 120'000;
  PULSE_ASSIGN_OR_RETURN(const auto session, MpiSession::Start(env.clock));
  PULSE_ASSIGN_OR_RETURN(
      const auto mpi,
      OpenMpiCommunicator(*session, {}, Deadline::After(env.clock, kStartTimeoutMs)));
  CheckedCommunicator communicator(*mpi);
  OverlapBench bench(a, communicator, env.clock);
  PULSE_RETURN_IF_ERROR(bench.Prepare());
  std::vector<OverlapResult> results;
  for (const std::string& name : a.exchanges) {
    PULSE_ASSIGN_OR_RETURN(const ExchangeKind kind, loco::ExchangeKindFromName(name));
    PULSE_ASSIGN_OR_RETURN(OverlapResult result, bench.Run(kind));
    if (!result.same_bits) return Internal("{}: segments change bits", name);
    results.push_back(std::move(result));
  }
  if (session->rank() == 0) PrintOverlap(env, a, session->size(), results);
  return OkStatus();
}

}  // namespace

void AddBenchOverlap(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "overlap",
      "What encoding, sending and adding at once saves: each rank under mpirun is a trainer, best "
      "under launch/sites.py");
  auto a = std::make_shared<BenchOverlapArguments>();
  command->add_option("--elements", a->elements, "Parameters")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 34))
      ->capture_default_str();
  command->add_option("--density", a->density, "Share of entries that the gate lets through")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command->add_option("--sites", a->sites, "Sites, of equally many trainers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--exchanges", a->exchanges, "Which")->delimiter(',')->capture_default_str();
  AddRepeatsOption(*command, a->repeats);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchOverlap(env, *a); }; });
}

}  // namespace pulse
