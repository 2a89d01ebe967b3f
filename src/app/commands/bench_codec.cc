#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/commands/bench.h"
#include "app/commands/bench_codec_data.h"
#include "app/commands/bench_codec_rivals.h"
#include "app/commands/bench_codec_trained.h"
#include "app/parts.h"
#include "app/timing.h"
#include "app/torch_plugin.h"
#include "core/workers.h"
#include "sync/view.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr uint64_t kBlock = kCellBytes / 2;  // words that publishers and followers code at a time

struct BenchCodecArguments {
  uint64_t elements = uint64_t{16} << 20;
  uint64_t threads = 0;  // beside 1; 0: the machine's
  uint64_t repeats = 5;
  std::string kernels = "auto";
  std::vector<std::string> data;
  std::vector<std::string> pairs;
  std::string train;                   // a configuration
  std::vector<std::string> overrides;  // of it
};

// In bits per changed element: what no codec can go below that knows the old exponents alone.
struct Bound {
  double positions = 0;  // H(changed or not | exponent)
  double values = 0;     // H(step | exponent), of changed elements
  uint64_t changed = 0;

  double all() const { return positions + values; }
};

double Bits(double part, double whole) {
  return part > 0 ? part * std::log2(whole / part) : 0;
}

Bound BoundOf(const CodecData& data) {
  constexpr size_t kSteps = 1 << 16, kExponents = 256;
  std::vector<uint32_t> histogram(kSteps * kExponents);
  for (size_t i = 0; i < data.before.size(); ++i) {
    const size_t exponent = data.before[i] >> 7 & 0xff;
    ++histogram[exponent * kSteps + static_cast<uint16_t>(data.after[i] - data.before[i])];
  }
  Bound bound;
  double positions = 0, values = 0;
  for (size_t e = 0; e < kExponents; ++e) {
    const std::span steps = std::span(histogram).subspan(e * kSteps, kSteps);
    uint64_t changed = 0;
    for (size_t step = 1; step < kSteps; ++step) changed += steps[step];
    const double all = static_cast<double>(changed + steps[0]);
    positions += Bits(static_cast<double>(changed), all) + Bits(steps[0], all);
    for (size_t step = 1; step < kSteps; ++step) {
      values += Bits(steps[step], static_cast<double>(changed));
    }
    bound.changed += changed;
  }
  if (bound.changed == 0) return bound;
  bound.positions = positions / static_cast<double>(bound.changed);
  bound.values = values / static_cast<double>(bound.changed);
  return bound;
}

ByteView BlockOf(const std::vector<uint16_t>& words, uint64_t b) {
  const uint64_t n = std::min<uint64_t>(kBlock, words.size() - b * kBlock);
  return AsBytes(std::span(words).subspan(b * kBlock, n));
}

// GB/s of one array read once by these workers.
double ReadRate(Clock& clock, Workers& workers, size_t repeats, const CodecData& data) {
  std::atomic<uint64_t> sink = 0;
  const Timing read = TimeRepeated(clock, repeats, [&] {
    RunRanges(workers, data.before.size(), kBlock, [&](uint64_t begin, uint64_t end) {
      sink += SumOfWords(AsBytes(std::span(data.before).subspan(begin, end - begin)));
    });
  });
  return 2e-9 * static_cast<double>(data.before.size()) / read.best_s;
}

// The first error of the workers.
class Failures {
 public:
  void Note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    first_.Update(status);
  }
  const Status& first() const { return first_; }

 private:
  std::mutex mutex_;
  Status first_;
};

class CodecBench {
 public:
  CodecBench(Environment& env, const CodecData& data, const Bound& bound, size_t repeats)
      : env_(env), data_(data), bound_(bound), repeats_(repeats) {}

  StatusOr<json> Measure(const BlockCodec& codec, Workers& workers, double read_gb_per_s) {
    const uint64_t blocks = (data_.before.size() + kBlock - 1) / kBlock;
    std::vector<Bytes> coded(blocks);
    Failures failures;
    const Timing encode = TimeRepeated(env_.clock, repeats_, [&] {
      workers.Run(blocks, [&](size_t b) {
        auto bytes = codec.encode(BlockOf(data_.before, b), BlockOf(data_.after, b));
        failures.Note(bytes.status());
        if (bytes.ok()) coded[b] = *std::move(bytes);
      });
    });
    PULSE_RETURN_IF_ERROR(failures.first());
    PULSE_ASSIGN_OR_RETURN(const double rebuild_s, Rebuild(codec, coded, workers));
    uint64_t bytes = 0, positions = 0;
    for (uint64_t b = 0; b < blocks; ++b) {
      bytes += coded[b].size();
      if (codec.position_bytes) {
        positions += codec.position_bytes(BlockOf(data_.before, b), BlockOf(data_.after, b));
      }
    }
    const double gigabytes = 2e-9 * static_cast<double>(data_.before.size());
    const double changed = static_cast<double>(std::max<uint64_t>(1, bound_.changed));
    json row = {{"codec", codec.name},
                {"threads", workers.threads()},
                {"bytes", bytes},
                {"bits_per_change", 8 * static_cast<double>(bytes) / changed},
                {"over_bound", 8 * static_cast<double>(bytes) / changed / bound_.all()},
                {"encode_gb_per_s", gigabytes / encode.best_s},
                {"rebuild_gb_per_s", gigabytes / rebuild_s},
                {"encode_of_half_read", gigabytes / encode.best_s / (read_gb_per_s / 2)},
                {"rebuild_of_read", gigabytes / rebuild_s / read_gb_per_s}};
    if (codec.position_bytes) {
      row["position_bits"] = 8 * static_cast<double>(positions) / changed;
      row["value_bits"] = 8 * static_cast<double>(bytes - positions) / changed;
    }
    if (bound_.changed == 0) row["over_bound"] = nullptr;
    return row;
  }

 private:
  // Seconds to turn the old words into the new ones in place; each time checked.
  StatusOr<double> Rebuild(const BlockCodec& codec, const std::vector<Bytes>& coded,
                           Workers& workers) {
    double best_s = 0;
    for (size_t repeat = 0; repeat <= repeats_; ++repeat) {
      words_ = data_.before;
      Failures failures;
      const int64_t begin_ns = env_.clock.NowNs();
      workers.Run(coded.size(), [&](size_t b) {
        const ByteView block = BlockOf(words_, b);
        failures.Note(codec.apply(coded[b], {const_cast<uint8_t*>(block.data()), block.size()}));
      });
      const double seconds = static_cast<double>(env_.clock.NowNs() - begin_ns) * 1e-9;
      PULSE_RETURN_IF_ERROR(failures.first());
      if (words_ != data_.after) return Internal("{}: rebuilt other words", codec.name);
      if (repeat == 1 || (repeat > 1 && seconds < best_s)) best_s = seconds;
    }
    return best_s;
  }

  Environment& env_;
  const CodecData& data_;
  const Bound& bound_;
  size_t repeats_;
  std::vector<uint16_t> words_;
};

void Print(const json& result) {
  fmt::print("{}: {} words, {:.3f} % changed; bound {:.2f} bits a change ({:.2f} + {:.2f})\n",
             result["data"].get<std::string>(), result["elements"].get<uint64_t>(),
             100 * result["changed_share"].get<double>(), result["bound_bits"].get<double>(),
             result["bound_position_bits"].get<double>(), result["bound_value_bits"].get<double>());
  fmt::print("  {:<16} {:>7} {:>9} {:>9} {:>8} {:>8} {:>13} {:>13} {:>10}\n", "codec", "threads",
             "position", "value", "bits", "of bound", "encode GB/s", "rebuild GB/s", "of read");
  for (const json& row : result["rows"]) {
    const auto number = [&](const char* key, const char* format) {
      return row.contains(key) && row[key].is_number()
                 ? fmt::format(fmt::runtime(format), row[key].get<double>())
                 : std::string();
    };
    fmt::print("  {:<16} {:>7} {:>9} {:>9} {:>8} {:>8} {:>13} {:>13} {:>10}\n",
               row["codec"].get<std::string>(), row["threads"].get<uint64_t>(),
               number("position_bits", "{:.2f}"), number("value_bits", "{:.2f}"),
               number("bits_per_change", "{:.2f}"), number("over_bound", "{:.3f}"),
               number("encode_gb_per_s", "{:.2f}"), number("rebuild_gb_per_s", "{:.2f}"),
               number("encode_of_half_read", "{:.2f}") + "/" + number("rebuild_of_read", "{:.2f}"));
  }
}

// The scan by which TRL's delta weight sync finds changes, as LibTorch runs it; where this build
// has LibTorch. Its output is int64 positions and BF16 values.
void AddTorchDetector(Environment& env, const BenchCodecArguments& a, CodecData& data,
                      size_t threads, double read_gb_per_s, json& rows) {
  const auto made = LoadTorchCounterparts(
      {.w = {}, .m = {}, .v = {}, .g = {}, .before = data.before, .after = data.after},
      {.learning_rate = 0, .beta1 = 0, .beta2 = 0, .epsilon = 0, .weight_decay = 0},
      static_cast<int>(threads));
  if (!made.ok()) return;
  for (const Counterpart& c : *made) {
    if (c.kernel != "diff") continue;
    const Timing timing = TimeRepeated(env.clock, a.repeats, c.run);
    const double rate = 2e-9 * static_cast<double>(data.before.size()) / timing.best_s;
    rows.push_back({{"codec", "torch's detector"},
                    {"threads", threads},
                    {"encode_gb_per_s", rate},
                    {"encode_of_half_read", rate / (read_gb_per_s / 2)}});
  }
}

StatusOr<json> Measure(Environment& env, const BenchCodecArguments& a,
                       const kernels::KernelTable& kernels, CodecData& data) {
  const Bound bound = BoundOf(data);
  json result = {{"data", data.name},
                 {"elements", data.before.size()},
                 {"kernels", kernels.name},
                 {"changed_share",
                  static_cast<double>(bound.changed) / static_cast<double>(data.before.size())},
                 {"bound_bits", bound.all()},
                 {"bound_position_bits", bound.positions},
                 {"bound_value_bits", bound.values},
                 {"rows", json::array()},
                 {"read_gb_per_s", json::object()}};
  CodecBench bench(env, data, bound, a.repeats);
  for (const size_t threads : ThreadCounts(a.threads)) {
    Workers workers(threads);
    const double read = ReadRate(env.clock, workers, a.repeats, data);
    result["read_gb_per_s"][std::to_string(threads)] = read;
    for (const BlockCodec& codec : BlockCodecs(kernels)) {
      PULSE_ASSIGN_OR_RETURN(json row, bench.Measure(codec, workers, read));
      result["rows"].push_back(std::move(row));
    }
    AddTorchDetector(env, a, data, threads, read, result["rows"]);
  }
  return result;
}

// Both storage regimes, 1 and 8 steps between versions.
Status MeasureTrained(Environment& env, const BenchCodecArguments& a,
                      const kernels::KernelTable& kernels,
                      const std::function<Status(CodecData&)>& measure) {
  PULSE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(*env.filesystem, a.train, a.overrides));
  LiveLine line(env.console);
  const auto trainer = MakeTrainer(config, [&line](uint64_t done, uint64_t total) {
    line.Show(fmt::format("warm start: step {}/{}", done, total));
  });
  PULSE_RETURN_IF_ERROR(trainer.status());
  std::vector<float> weights((*trainer)->schema().elements());
  PULSE_RETURN_IF_ERROR((*trainer)->InitialWeights(weights));
  for (const Storage storage : {Storage::kFP32, Storage::kBF16}) {
    const auto sets = MakeTrainedCodecData(
        **trainer, weights, AdamWOf(config), kernels,
        {.storage = storage, .steps = {1, 8}, .elements = a.elements},
        [&line, storage](uint64_t step, uint64_t total) {
          line.Show(fmt::format("{}: step {}/{}", TrainedDataName(storage, 8), step, total));
        });
    PULSE_RETURN_IF_ERROR(sets.status());
    for (CodecData set : *sets) PULSE_RETURN_IF_ERROR(measure(set));
  }
  return OkStatus();
}

Status BenchCodec(Environment& env, const BenchCodecArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels(a.kernels));
  json results = json::array();
  const auto measure = [&](CodecData& data) -> Status {
    PULSE_ASSIGN_OR_RETURN(json result, Measure(env, a, kernels, data));
    if (!env.console.json) Print(result);
    results.push_back(std::move(result));
    return OkStatus();
  };
  if (!a.pairs.empty()) {
    PULSE_ASSIGN_OR_RETURN(CodecData data, LoadCodecData(*env.filesystem, a.pairs));
    PULSE_RETURN_IF_ERROR(measure(data));
  }
  if (!a.train.empty()) PULSE_RETURN_IF_ERROR(MeasureTrained(env, a, kernels, measure));
  const bool by_default = a.data.empty() && a.pairs.empty() && a.train.empty();
  for (const std::string& name : by_default ? CodecDataNames() : a.data) {
    PULSE_ASSIGN_OR_RETURN(CodecData data, MakeCodecData(name, a.elements, kernels));
    PULSE_RETURN_IF_ERROR(measure(data));
  }
  if (env.console.json) fmt::print("{}\n", results.dump(2));
  return OkStatus();
}

}  // namespace

void AddBenchCodec(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "codec", "Bits per change beside the entropy and other forms, and rates beside the memory's");
  auto a = std::make_shared<BenchCodecArguments>();
  command->add_option("--elements", a->elements, "BF16 words of each synthetic data set")
      ->check(CLI::Range(uint64_t{1} << 16, uint64_t{1} << 34))
      ->capture_default_str();
  command->add_option("--data", a->data,
                      fmt::format("Synthetic data, may be repeated: {}; default: all",
                                  fmt::join(CodecDataNames(), ", ")));
  command->add_option("--pair", a->pairs,
                      "BEFORE,AFTER: two checkpoints; all pairs together are one data set");
  auto* train = command->add_option(
      "--train", a->train,
      "Configuration (configs/quickstart.yaml): data of some hundred steps of training its model, "
      "in FP32 masters and in BF16 storage, 1 and 8 steps apart");
  command->add_option("--set", a->overrides, "Override a key of --train")->needs(train);
  AddThreadsOption(*command, a->threads);
  AddRepeatsOption(*command, a->repeats);
  AddKernelsOption(*command, a->kernels);
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchCodec(env, *a); }; });
}

}  // namespace pulse
