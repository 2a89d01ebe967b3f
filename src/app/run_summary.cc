#include "app/run_summary.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "app/run_folder.h"

namespace pulse {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxRecordFileBytes = uint64_t{1} << 30;  // a million rounds are about 600 MB

// Calls `record` for each line. A last line without its newline was being written: it is left out.
Status ReadJsonLines(Filesystem& fs, const std::string& path,
                     const std::function<void(const json&)>& record) {
  PULSE_ASSIGN_OR_RETURN(const Bytes bytes, ReadFile(fs, path, kMaxRecordFileBytes));
  std::string_view text = AsText(bytes);
  for (size_t line = 1; text.find('\n') != std::string_view::npos; ++line) {
    const size_t end = text.find('\n');
    try {
      record(json::parse(text.substr(0, end)));
    } catch (const json::exception& e) {
      return DataLoss("{}:{}: not a record of this program: {}", path, line, e.what());
    }
    text.remove_prefix(end + 1);
  }
  return OkStatus();
}

// Adds up the trainers' own record; digests by version for comparison with the followers'.
class MetricsReader {
 public:
  explicit MetricsReader(RunSummary& run) : run_(run) {}

  void Read(const json& record) {
    const std::string type = record.at("type");
    if (type == "start") ReadStart(record);
    if (type == "round") ReadRound(record);
    if (type == "version") ReadVersion(record);
    if (type == "evaluation") ReadEvaluation(record);
    if (type == "end") run_.finished = true;
  }

  void Finish() {
    const auto rounds = static_cast<double>(run_.rounds);
    if (run_.rounds > 0) {
      for (double* mean : {&run_.gate_density, &run_.view_density, &run_.exchange_bytes}) {
        *mean /= rounds;
      }
    }
    if (entry_count_ > 0) run_.bytes_per_entry = entry_bytes_ / entry_count_;
    if (deltas_ > 0) run_.patch_bytes /= static_cast<double>(deltas_);
  }

  const std::map<std::string, std::string>& digests() const { return digests_; }

 private:
  void ReadStart(const json& record) {
    run_.mode = record.at("mode");
    run_.trainers = record.at("trainers");
    run_.local_steps = record.at("local_steps");
    run_.parameters = record.at("parameters");
  }

  void ReadRound(const json& record) {
    ++run_.rounds;
    run_.seconds += record.at("seconds").get<double>();
    run_.gate_density += record.at("gate_density").get<double>();
    run_.view_density += record.at("view_density").get<double>();
    run_.exchange_bytes += record.at("received_bytes").get<double>();
    run_.dense_diloco_bytes = record.at("dense_diloco_bytes").get<double>();
    run_.ddp_bytes = record.at("ddp_bytes").get<double>();
    entry_bytes_ += record.at("payload_bytes").get<double>();
    entry_count_ += record.at("entries").get<double>();
  }

  void ReadVersion(const json& record) {
    ++run_.versions;
    run_.last_version = record.at("version");
    run_.last_digest = record.at("digest");
    run_.checkpoint_bytes = record.at("checkpoint_bytes");
    digests_[run_.last_version] = run_.last_digest;
    const double delta = record.at("delta_bytes");
    if (delta > 0) {
      run_.patch_bytes += delta;
      ++deltas_;
    }
  }

  void ReadEvaluation(const json& record) {
    const bool initial = record.at("when") == "initial";
    (initial ? run_.initial : run_.final) = WinRateOf(record.at("metrics"));
    (initial ? run_.has_initial : run_.has_final) = true;
  }

  RunSummary& run_;
  std::map<std::string, std::string> digests_;
  uint64_t deltas_ = 0;
  double entry_bytes_ = 0, entry_count_ = 0;
};

StatusOr<FollowerSummary> ReadFollower(Filesystem& fs, const std::string& folder,
                                       const std::string& name,
                                       const std::map<std::string, std::string>& digests) {
  FollowerSummary follower;
  follower.name = name;
  std::set<std::string> versions;  // one that was killed may have told of its last one twice
  PULSE_RETURN_IF_ERROR(ReadJsonLines(fs, folder + "/versions.jsonl", [&](const json& record) {
    if (record.at("type") == "version") {
      follower.last_version = record.at("version");
      follower.versions += versions.insert(follower.last_version).second;
      follower.last_digest = record.at("digest");
      follower.bytes_fetched += record.at("bytes_fetched").get<uint64_t>();
      const auto known = digests.find(follower.last_version);
      follower.mismatches += known == digests.end() || known->second != follower.last_digest;
    } else if (record.at("type") == "evaluation") {
      follower.has_evaluation = true;
      follower.evaluation = WinRateOf(record.at("metrics"));
    }
  }));
  return follower;
}

}  // namespace

double WinRate::standard_error() const {
  return games ? std::sqrt(rate() * (1 - rate()) / static_cast<double>(games)) : 0;
}

WinRate WinRateOf(const json& metrics) {
  return {static_cast<uint64_t>(metrics.value("games", 0.0)),
          static_cast<uint64_t>(metrics.value("wins", 0.0)), metrics.value("reward_sum", 0.0)};
}

std::string WinRateText(const WinRate& rate) {
  return fmt::format("{:.1f} % +- {:.1f}", 100 * rate.rate(), 100 * rate.standard_error());
}

double Significance(const WinRate& before, const WinRate& after) {
  const double error = std::hypot(before.standard_error(), after.standard_error());
  return error > 0 ? (after.rate() - before.rate()) / error : 0;
}

StatusOr<RunSummary> SummarizeRun(Filesystem& fs, const std::string& run_path) {
  RunSummary run;
  run.path = run_path;
  MetricsReader reader(run);
  PULSE_RETURN_IF_ERROR(ReadJsonLines(fs, RunFolder{run_path}.Metrics(),
                                      [&](const json& record) { reader.Read(record); }));
  reader.Finish();
  PULSE_ASSIGN_OR_RETURN(const auto entries, fs.List(run_path));
  for (const DirectoryEntry& entry : entries) {
    const std::string folder = run_path + "/" + entry.name;
    if (entry.kind != DirectoryEntry::Kind::kDirectory ||
        !fs.Stat(folder + "/versions.jsonl").ok()) {
      continue;
    }
    PULSE_ASSIGN_OR_RETURN(FollowerSummary follower,
                           ReadFollower(fs, folder, entry.name, reader.digests()));
    run.followers.push_back(std::move(follower));
  }
  return run;
}

}  // namespace pulse
