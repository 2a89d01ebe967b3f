#include "inference_bridge/output.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/deadline.h"

namespace pulse {
namespace {

constexpr char kModelFile[] = "model.safetensors";
// Behind the path: of the symlink that is about to replace the present one.
constexpr char kNewLink[] = ".link-new";

std::string HolderOfThisProcess() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("pid {} on {}", ::getpid(), host[0] != '\0' ? host.data() : "an unnamed host");
}

}  // namespace

Output::Output(OutputOptions options, Filesystem& fs, Logger& log)
    : options_(std::move(options)), fs_(fs), log_(log) {
  const size_t slash = options_.path.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : options_.path.substr(0, slash);
  name_ = options_.path.substr(slash == std::string::npos ? 0 : slash + 1);
  versions_ = options_.path + ".versions";
}

StatusOr<std::unique_ptr<Output>> Output::Open(OutputOptions options, Filesystem& fs,
                                               const Clock& clock, Logger& log) {
  while (options.path.size() > 1 && options.path.ends_with('/')) options.path.pop_back();
  std::unique_ptr<Output> output(new Output(std::move(options), fs, log));
  if (output->name_.empty() || output->name_ == "." || output->name_ == "..") {
    return InvalidArgument("output \"{}\" is not the name of a file", output->path());
  }
  const std::string where = "output " + output->path();
  PULSE_RETURN_IF_ERROR(Annotate(fs.CreateDirectories(output->folder_), where));
  PULSE_RETURN_IF_ERROR(Annotate(output->TakeLock(clock), where));
  PULSE_RETURN_IF_ERROR(Annotate(output->CheckPlace(), where));
  PULSE_ASSIGN_OR_RETURN(auto state, LoadFollowState(fs, output->state_path()));
  if (state && state->run != output->options_.run) {
    return FailedPrecondition(
        "output {} follows run \"{}\", not \"{}\": give another --out, or remove it with {}",
        output->path(), state->run, output->options_.run, output->state_path());
  }
  PULSE_RETURN_IF_ERROR(Annotate(output->RemoveLeftovers(), where));
  FollowState next = state.value_or(FollowState());
  next.run = output->options_.run;
  next.holder = HolderOfThisProcess();
  if (next != state) {
    PULSE_RETURN_IF_ERROR(Annotate(StoreFollowState(fs, output->state_path(), next), where));
  }
  output->state_ = std::move(next);
  return output;
}

Status Output::TakeLock(const Clock& clock) {
  auto lock = fs_.Lock(options_.path + ".lock", Deadline::After(clock, options_.lock_timeout_ms));
  if (absl::IsUnimplemented(lock.status())) {
    log_.warn("{}: take care that no other follower uses this output",
              ToStd(lock.status().message()));
    return OkStatus();
  }
  if (absl::IsDeadlineExceeded(lock.status())) {
    const auto state = LoadFollowState(fs_, state_path());
    const bool known = state.ok() && *state && !(*state)->holder.empty();
    return Aborted("another follower{} works on it: read what that one writes, or wait for its end",
                   known ? fmt::format(" ({})", (*state)->holder) : "");
  }
  PULSE_ASSIGN_OR_RETURN(lock_, std::move(lock));
  return OkStatus();
}

// Renaming over a folder fails, and over a foreign kind of file would surprise somebody.
Status Output::CheckPlace() {
  PULSE_ASSIGN_OR_RETURN(const auto entries, fs_.List(folder_));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name != name_) continue;
    using Kind = DirectoryEntry::Kind;
    const Kind expected = layout() == OutputLayout::kFile ? Kind::kFile : Kind::kSymlink;
    if (entry.kind == expected) return OkStatus();
    return InvalidArgument("there is a {} in its place, not a {}: give another --out",
                           entry.kind == Kind::kDirectory ? "folder"
                           : entry.kind == Kind::kSymlink ? "symlink"
                           : entry.kind == Kind::kFile    ? "file"
                                                          : "special file",
                           expected == Kind::kFile ? "file" : "symlink of a follower");
  }
  return OkStatus();
}

std::string Output::file() const {
  return layout() == OutputLayout::kFile ? options_.path : options_.path + "/" + kModelFile;
}

Status Output::Remember(const VersionRef& seen) {
  if (state_.seen == seen) return OkStatus();
  FollowState next = state_;
  next.seen = seen;
  PULSE_RETURN_IF_ERROR(StoreFollowState(fs_, state_path(), next));
  state_ = std::move(next);
  return OkStatus();
}

StatusOr<std::string> Output::Stage(const VersionId& id) {
  if (layout() == OutputLayout::kFile) return options_.path;
  const std::string folder = versions_ + "/" + id.Folder();
  PULSE_RETURN_IF_ERROR(fs_.CreateDirectories(folder));
  return folder + "/" + kModelFile;
}

Status Output::Link(const VersionId& id) {
  if (layout() == OutputLayout::kFile) return OkStatus();
  const auto before = fs_.ReadSymlink(options_.path);
  const std::string link = options_.path + kNewLink;
  // Relative, so that the whole can be moved.
  const std::string target = fmt::format("{}.versions/{}", name_, id.Folder());
  if (const Status status = fs_.Remove(link); !status.ok() && !absl::IsNotFound(status))
    return status;
  PULSE_RETURN_IF_ERROR(fs_.Symlink(target, link));
  PULSE_RETURN_IF_ERROR(fs_.Rename(link, options_.path));
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, folder_));
  // The version before stays for readers that have resolved the link a moment ago.
  const std::string previous = before.ok() ? before->substr(before->rfind('/') + 1) : "";
  RemoveVersionsExcept(id.Folder(), previous);
  return OkStatus();
}

Status Output::Remove() {
  const Status status = fs_.Remove(options_.path);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return SyncDirectoryWherePossible(fs_, folder_);
}

// Nobody else writes here: we have the lock.
Status Output::RemoveLeftovers() {
  if (lock_ == nullptr) return OkStatus();
  PULSE_RETURN_IF_ERROR(RemoveBeginningWith(
      folder_, {name_ + ".tmp-", name_ + ".state.tmp-", name_ + ".spool-", name_ + kNewLink}));
  if (layout() == OutputLayout::kFile) return OkStatus();
  const auto target = fs_.ReadSymlink(options_.path);
  const std::string current = target.ok() ? target->substr(target->rfind('/') + 1) : "";
  // The link that we see may not be durable yet: what the one before it leads to goes only after.
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs_, folder_));
  RemoveVersionsExcept(current, "");
  if (current.empty()) return OkStatus();
  return RemoveBeginningWith(versions_ + "/" + current, {std::string(kModelFile) + ".tmp-"});
}

Status Output::RemoveBeginningWith(const std::string& folder,
                                   const std::vector<std::string>& beginnings) {
  const auto entries = fs_.List(folder);
  if (absl::IsNotFound(entries.status())) return OkStatus();
  PULSE_RETURN_IF_ERROR(entries.status());
  for (const DirectoryEntry& entry : *entries) {
    if (std::ranges::none_of(beginnings, [&](const std::string& beginning) {
          return entry.name.starts_with(beginning);
        })) {
      continue;
    }
    log_.info("removing {}/{}, left by a follower that was killed", folder, entry.name);
    const Status status = fs_.Remove(folder + "/" + entry.name);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return OkStatus();
}

// Errors cost disk space, not correctness: the next call tries again.
void Output::RemoveVersionsExcept(const std::string& one, const std::string& other) {
  const auto versions = fs_.List(versions_);
  if (!versions.ok()) return;
  for (const DirectoryEntry& version : *versions) {
    if (version.name == one || version.name == other) continue;
    if (!VersionId::FromFolder(version.name)) continue;
    const std::string folder = versions_ + "/" + version.name;
    const auto files = fs_.List(folder);
    if (!files.ok()) continue;
    for (const DirectoryEntry& file : *files) fs_.Remove(folder + "/" + file.name).IgnoreError();
    if (const Status status = fs_.Remove(folder); !status.ok()) {
      log_.warn("can't remove an old version: {}", ToStd(status.message()));
    }
  }
}

}  // namespace pulse
