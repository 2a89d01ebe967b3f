#include "app/metrics_file.h"

#include <nlohmann/json.hpp>

namespace pulse {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;  // a million rounds are about 600 MB

bool Stays(const json& record, uint64_t round, uint64_t rounds) {
  const std::string type = record.at("type");
  const bool goes_on = round < rounds;
  if (type == "end") return !goes_on;
  if (type == "evaluation") return !goes_on || record.at("when") == "initial";
  return !record.contains("round") || record.at("round").get<uint64_t>() <= round;
}

}  // namespace

StatusOr<std::string> KeptRecords(std::string_view text, uint64_t round, uint64_t rounds) {
  std::string kept;
  for (size_t line = 1; text.find('\n') != std::string_view::npos; ++line) {
    const size_t end = text.find('\n') + 1;
    try {
      if (Stays(json::parse(text.substr(0, end)), round, rounds)) kept += text.substr(0, end);
    } catch (const json::exception& e) {
      return DataLoss("line {} is not a record of this program: {}", line, e.what());
    }
    text.remove_prefix(end);
  }
  return kept;  // a last line without its end was being written
}

StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Create(Filesystem& fs,
                                                           const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(auto file, fs.Create(path));
  return std::unique_ptr<MetricsFile>(new MetricsFile(std::move(file)));
}

StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Continue(Filesystem& fs,
                                                             const std::string& path,
                                                             uint64_t round, uint64_t rounds) {
  const auto text = ReadFile(fs, path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return Create(fs, path);
  if (!text.ok()) return text.status();
  const auto kept = KeptRecords(AsText(*text), round, rounds);
  if (!kept.ok()) return Annotate(kept.status(), path);
  // The rest is appended to the same file, under the name that it moves to.
  const std::string temporary = path + ".tmp";
  if (const Status removed = fs.Remove(temporary); !removed.ok() && !absl::IsNotFound(removed)) {
    return removed;
  }
  PULSE_ASSIGN_OR_RETURN(auto file, fs.Create(temporary));
  PULSE_RETURN_IF_ERROR(file->Append(AsBytes(std::string_view(*kept))));
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(fs.Rename(temporary, path));
  return std::unique_ptr<MetricsFile>(new MetricsFile(std::move(file)));
}

Status MetricsFile::Append(const std::string& line) {
  return file_->Append(AsBytes(std::string_view(line + "\n")));
}

Status MetricsFile::Close() {
  PULSE_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

StatusOr<uint64_t> RecordedRounds(Filesystem& fs, const std::string& path) {
  const auto text = ReadFile(fs, path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return 0;
  if (!text.ok()) return text.status();
  uint64_t rounds = 0;
  std::string_view rest = AsText(*text);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const json record = json::parse(rest.substr(0, end), nullptr, false);
    if (record.is_object() && record.value("type", "") == "round") ++rounds;
    rest.remove_prefix(end + 1);
  }
  return rounds;
}

}  // namespace pulse
