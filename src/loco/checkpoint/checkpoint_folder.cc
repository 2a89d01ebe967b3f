#include "loco/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace pulse::loco {
namespace {

constexpr std::string_view kRoundPrefix = "round-";
constexpr std::string_view kCommit = "/commit.json";

// Gone already, or not ours to remove yet: another rank's parts are still in it.
Status ExceptGone(const Status& removed) {
  if (absl::IsNotFound(removed) || absl::IsFailedPrecondition(removed)) return OkStatus();
  return removed;
}

}  // namespace

std::string CheckpointFolder::OfRound(uint64_t round) const {
  return fmt::format("{}/{}{:012}", path_, kRoundPrefix, round);
}

StatusOr<std::vector<uint64_t>> CheckpointFolder::Rounds() const {
  std::vector<uint64_t> rounds;
  const auto entries = fs_.List(path_);
  if (absl::IsNotFound(entries.status())) return rounds;
  if (!entries.ok()) return entries.status();
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.name.starts_with(kRoundPrefix)) continue;
    const std::string_view digits = std::string_view(entry.name).substr(kRoundPrefix.size());
    uint64_t round = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), round);
    if (error == std::errc() && end == digits.end() &&
        OfRound(round) == fmt::format("{}/{}", path_, entry.name)) {
      rounds.push_back(round);
    }
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

StatusOr<CommitRecord> CheckpointFolder::ReadCommit(uint64_t round) const {
  const std::string path = OfRound(round) + std::string(kCommit);
  PULSE_ASSIGN_OR_RETURN(const Bytes bytes, ReadFile(fs_, path, kMaxCommitBytes));
  auto record = ParseCommit(bytes);
  if (!record.ok()) return Annotate(record.status(), path);
  if (record->round != round) return DataLoss("{} is of round {}", path, record->round);
  return record;
}

Status CheckpointFolder::WriteCommit(const CommitRecord& record, const PartId& writer) const {
  PULSE_ASSIGN_OR_RETURN(const std::string text, SerializeCommit(record));
  const std::string folder = OfRound(record.round), path = folder + std::string(kCommit);
  const std::string temporary = fmt::format("{}.tmp-{}-{}", path, writer.trainer, writer.shard);
  PULSE_RETURN_IF_ERROR(ExceptGone(fs_.Remove(temporary)));
  PULSE_ASSIGN_OR_RETURN(const auto file, fs_.Create(temporary));
  PULSE_RETURN_IF_ERROR(file->Append(AsBytes(std::string_view(text))));
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(file->Close());
  PULSE_RETURN_IF_ERROR(fs_.Rename(temporary, path));
  return SyncDirectoryWherePossible(fs_, folder);
}

Status CheckpointFolder::Remove(uint64_t round, uint32_t trainer) const {
  const std::string folder = OfRound(round);
  PULSE_RETURN_IF_ERROR(ExceptGone(fs_.Remove(folder + std::string(kCommit))));
  const auto entries = fs_.List(folder);
  if (absl::IsNotFound(entries.status())) return OkStatus();
  if (!entries.ok()) return entries.status();
  const std::string mine = fmt::format("trainer-{:05}-", trainer);
  for (const DirectoryEntry& entry : *entries) {
    // A temporary commit record is nobody's: of a process that died at it.
    if (!entry.name.starts_with(mine) && !entry.name.starts_with("commit.json.tmp")) continue;
    PULSE_RETURN_IF_ERROR(ExceptGone(fs_.Remove(fmt::format("{}/{}", folder, entry.name))));
  }
  return ExceptGone(fs_.Remove(folder));
}

}  // namespace pulse::loco
