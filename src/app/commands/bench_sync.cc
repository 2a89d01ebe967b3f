// `pulseloco bench sync`: what a bucket does with objects, and how soon a follower has a version.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/commands/bench.h"
#include "app/parts.h"
#include "app/scratch_folder.h"
#include "core/rng.h"
#include "inference_bridge/follower.h"
#include "kernels/kernels.h"
#include "sync/publisher.h"

namespace pulse {
namespace {

struct BenchSyncArguments {
  std::string bucket;
  uint64_t object_mib = 8;
  uint64_t repeats = 5;
  uint64_t parameters = 10'000'000;
  double changed = 0.01;
  bool single_writer = false;
};

// Seconds of each repetition of one operation.
struct Samples {
  std::string operation;
  uint64_t bytes = 0;  // moved by one repetition; 0: a matter of latency alone
  std::vector<double> seconds;

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double worst() const { return *std::max_element(seconds.begin(), seconds.end()); }
};

class Bench {
 public:
  Bench(Environment& env, const BenchSyncArguments& a, Store& store)
      : env_(env), a_(a), store_(store) {
    std::string nonce = SystemNonces().Next();
    name_ = "bench-" + nonce.substr(0, 16);
  }

  Status Objects();
  Status Versions();
  // Everything that it put.
  Status CleanUp();
  const std::vector<Samples>& samples() const { return samples_; }

 private:
  template <typename Work>
  Status Time(Samples& samples, Work work) {
    const int64_t begin_ns = env_.clock.NowNs();
    PULSE_RETURN_IF_ERROR(work());
    samples.seconds.push_back(static_cast<double>(env_.clock.NowNs() - begin_ns) * 1e-9);
    return OkStatus();
  }
  Status ConditionalPuts();
  Status Cycle(Publisher& publisher, Follower& follower, ModelView& view, uint64_t version);

  Environment& env_;
  const BenchSyncArguments& a_;
  Store& store_;
  std::string name_;
  std::vector<Samples> samples_;
  Samples first_{"publish to ready, first", 0, {}}, publish_{"publish, delta", 0, {}};
  Samples follow_{"follow, delta", 0, {}}, ready_{"publish to ready, delta", 0, {}};
};

Status Bench::Objects() {
  Bytes bytes(a_.object_mib << 20);
  Rng rng(1, {});
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  Samples put{"put", bytes.size(), {}}, get{"get", bytes.size(), {}}, list{"list", 0, {}};
  for (uint64_t i = 0; i < a_.repeats; ++i) {
    const std::string key = fmt::format("{}/{}", name_, i);
    PULSE_RETURN_IF_ERROR(Time(
        put, [&] { return store_.Put(key, MemorySource(bytes), PutCondition::None()).status(); }));
    Bytes back(bytes.size());
    PULSE_RETURN_IF_ERROR(Time(get, [&] { return store_.ReadAt(key, 0, back); }));
    if (back != bytes) return DataLoss("{}: {} came back with other bytes", store_.uri(), key);
    PULSE_RETURN_IF_ERROR(
        Time(list, [&] { return store_.List(name_ + "/", "", 1000, false).status(); }));
  }
  samples_.insert(samples_.end(), {put, get, list});
  return ConditionalPuts();
}

Status Bench::ConditionalPuts() {
  PULSE_ASSIGN_OR_RETURN(const bool honours, store_.HonoursConditions());
  if (!honours) return OkStatus();  // Versions() says what that means
  Samples swap{"conditional put", 0, {}};
  const std::string key = name_ + "/swapped";
  PULSE_ASSIGN_OR_RETURN(ObjectInfo last,
                         store_.Put(key, MemorySource({}), PutCondition::IfAbsent()));
  for (uint64_t i = 0; i < a_.repeats; ++i) {
    const std::string text = fmt::format("{:0300}", i);  // as long as a head
    PULSE_RETURN_IF_ERROR(Time(swap, [&]() -> Status {
      PULSE_ASSIGN_OR_RETURN(last, store_.Put(key, MemorySource(AsBytes(std::string_view(text))),
                                              PutCondition::IfMatch(last.etag)));
      return OkStatus();
    }));
  }
  samples_.push_back(swap);
  return OkStatus();
}

Status Bench::Cycle(Publisher& publisher, Follower& follower, ModelView& view, uint64_t version) {
  Samples publish, follow;
  uint64_t sent = 0, fetched = 0;
  PULSE_RETURN_IF_ERROR(Time(publish, [&]() -> Status {
    PULSE_ASSIGN_OR_RETURN(const Published published, publisher.Publish(view, {}));
    sent = published.manifest.bytes(PayloadRole::kDelta) +
           published.manifest.bytes(PayloadRole::kAnchor);
    return OkStatus();
  }));
  PULSE_RETURN_IF_ERROR(Time(follow, [&]() -> Status {
    PULSE_ASSIGN_OR_RETURN(const FollowResult result, follower.Step());
    fetched = result.bytes;
    return OkStatus();
  }));
  const double ready = publish.seconds[0] + follow.seconds[0];
  if (version == 0) {
    first_.bytes = sent;
    first_.seconds.push_back(ready);
    return OkStatus();
  }
  publish_.bytes = ready_.bytes = sent;
  follow_.bytes = fetched;
  publish_.seconds.push_back(publish.seconds[0]);
  follow_.seconds.push_back(follow.seconds[0]);
  ready_.seconds.push_back(ready);
  return OkStatus();
}

// A model of BF16 weights, of which a share moves by one unit in the last place with each version.
Status Bench::Versions() {
  PULSE_ASSIGN_OR_RETURN(const auto kernels, kernels::ChooseKernels("auto"));
  const auto logger = NullLogger();
  SystemNonces nonces;
  PULSE_ASSIGN_OR_RETURN(const ModelSchema schema,
                         ModelSchema::Make({{"weights", DType::kBF16, {a_.parameters}}}, {}));
  std::vector<uint16_t> weights(a_.parameters);
  Rng rng(2, {});
  for (uint16_t& w : weights) {
    w = static_cast<uint16_t>(0x3c00 + rng.Below(256) + (rng.Below(2) << 15));  // +-0.008 to 0.03
  }
  ModelView view{&schema, {AsBytes(std::span<const uint16_t>(weights))}};

  PULSE_ASSIGN_OR_RETURN(
      const auto scratch,
      ScratchFolder::Make(*env_.filesystem,
                          (std::filesystem::temp_directory_path() / name_).string()));
  PublisherOptions publisher_options;
  publisher_options.run = name_;
  publisher_options.single_writer = a_.single_writer;
  publisher_options.anchor_share = 1e9;  // deltas alone behind the first
  PULSE_ASSIGN_OR_RETURN(const auto publisher,
                         Publisher::Open(publisher_options, {store_, *env_.filesystem, env_.clock,
                                                             nonces, kernels, *logger}));
  FollowerOptions follower_options;
  follower_options.run = name_;
  follower_options.output = scratch->path() + "/out.safetensors";
  PULSE_ASSIGN_OR_RETURN(
      const auto follower,
      Follower::Open(follower_options, {store_, *env_.filesystem, env_.clock, kernels, *logger}));
  LiveLine line(env_.console);
  for (uint64_t version = 0; version <= a_.repeats; ++version) {
    if (!env_.console.json) line.Show(fmt::format("version {} of {}", version, a_.repeats));
    PULSE_RETURN_IF_ERROR(Cycle(*publisher, *follower, view, version));
    const uint64_t moves = static_cast<uint64_t>(a_.changed * static_cast<double>(a_.parameters));
    for (uint64_t i = 0; i < moves; ++i) {
      ++weights[rng.Below(static_cast<uint32_t>(a_.parameters))];
    }
  }
  samples_.insert(samples_.end(), {first_, publish_, follow_, ready_});
  return OkStatus();
}

Status Bench::CleanUp() {
  for (const std::string& prefix : {name_ + "/", "runs/" + name_ + "/"}) {
    PULSE_ASSIGN_OR_RETURN(const ListPage all, ListAll(store_, prefix, false));
    for (const ObjectInfo& object : all.objects) PULSE_RETURN_IF_ERROR(store_.Delete(object.key));
  }
  return OkStatus();
}

void Print(const Console& console, const Store& store, const std::vector<Samples>& all) {
  nlohmann::json json = {{"bucket", store.uri()}, {"operations", nlohmann::json::array()}};
  if (!console.json) {
    fmt::print("{:24} {:>10} {:>10} {:>10} {:>12}\n", "operation", "bytes", "median", "worst",
               "rate");
  }
  for (const Samples& s : all) {
    if (s.seconds.empty()) continue;
    const double rate = static_cast<double>(s.bytes) / s.median();
    json["operations"].push_back({{"operation", s.operation},
                                  {"bytes", s.bytes},
                                  {"repeats", s.seconds.size()},
                                  {"median_seconds", s.median()},
                                  {"worst_seconds", s.worst()},
                                  {"bytes_per_second", rate}});
    if (console.json) continue;
    fmt::print("{:24} {:>10} {:>10} {:>10} {:>12}\n", s.operation,
               s.bytes == 0 ? "-" : FormatBytes(s.bytes), FormatSeconds(s.median()),
               FormatSeconds(s.worst()),
               s.bytes == 0 ? "-" : FormatBytes(static_cast<uint64_t>(rate)) + "/s");
  }
  if (console.json) fmt::print("{}\n", json.dump(2));
}

Status BenchSync(Environment& env, const BenchSyncArguments& a) {
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         OpenBucket(a.bucket, BucketAccess::kCreate, *env.filesystem, env.clock));
  Bench bench(env, a, *store);
  Status done = bench.Objects();
  if (done.ok()) done = bench.Versions();
  const Status cleaned = bench.CleanUp();
  PULSE_RETURN_IF_ERROR(done);
  Print(env.console, *store, bench.samples());
  return Annotate(cleaned, "removing the bench's objects");
}

}  // namespace

void AddBenchSync(CLI::App& bench, Environment& env, Action& chosen) {
  CLI::App* command = bench.add_subcommand(
      "sync", "A bucket: put, get, list, conditional put, and publish to a ready follower");
  auto a = std::make_shared<BenchSyncArguments>();
  command
      ->add_option("--bucket", a->bucket,
                   "URI or path of the bucket; what the bench puts there it removes")
      ->required();
  command->add_option("--object", a->object_mib, "Size of an object, MiB")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1024}))
      ->capture_default_str();
  command->add_option("--repeats", a->repeats, "Times each")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000}))
      ->capture_default_str();
  command->add_option("--parameters", a->parameters, "Of the published model")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 31))
      ->capture_default_str();
  command->add_option("--changed", a->changed, "Share of them that moves with each version")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_flag("--single-writer", a->single_writer,
                    "Allow a store without conditional puts, as for publish");
  AddConsoleOptions(*command, env.console);
  command->callback([&env, &chosen, a] { chosen = [&env, a] { return BenchSync(env, *a); }; });
}

}  // namespace pulse
