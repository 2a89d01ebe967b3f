#include "store/unsynced_filesystem.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/rng.h"

namespace pulse {
namespace {

using Kind = DirectoryEntry::Kind;

constexpr int kMaxSymlinks = 40;  // as Linux

std::vector<std::string> Split(std::string_view path) {
  std::vector<std::string> names;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) names.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

Status CallError(int error, std::string_view call, const std::string& path) {
  return ErrnoStatus(error, fmt::format("{} {}", call, path));
}

// An open file: holds on to what the contents were.
class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(std::shared_ptr<const Bytes> bytes, DirectoryEntry entry, std::string path)
      : bytes_(std::move(bytes)), entry_(std::move(entry)), path_(std::move(path)) {}

  uint64_t size() const override { return bytes_->size(); }
  const DirectoryEntry& entry() const override { return entry_; }
  Status ReadAt(uint64_t offset, ByteSpan out) const override {
    if (offset > size() || out.size() > size() - offset) {
      return DataLoss("{} ends at {}: can't read {} bytes at {}", path_, size(), out.size(),
                      offset);
    }
    std::copy_n(bytes_->begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return OkStatus();
  }
  StatusOr<ByteView> Map() const override { return ByteView(*bytes_); }

 private:
  std::shared_ptr<const Bytes> bytes_;
  DirectoryEntry entry_;
  std::string path_;
};

}  // namespace

struct UnsyncedFilesystem::Node {
  Kind kind = Kind::kFile;
  uint64_t id = 0;
  int64_t modified_unix_ns = 0;
  std::string target;  // of a symlink
  bool locked = false;
  // Of a file, and of a folder: as seen, and as synced.
  Contents bytes = std::make_shared<Bytes>(), synced_bytes = bytes;
  std::map<std::string, NodePtr> names, synced_names;

  DirectoryEntry Entry(std::string name) const {
    return {std::move(name), kind, bytes->size(), modified_unix_ns, id};
  }
};

struct UnsyncedFilesystem::Place {
  NodePtr folder;  // null for the root
  std::string name;
  NodePtr node;  // null if the name is free
};

struct UnsyncedFilesystem::NameChange {
  uint64_t operation = 0;
  NodePtr folder;
  std::string name;
  NodePtr node;  // null: removed
};

class UnsyncedFilesystem::OpenForWriting final : public WritableFile {
 public:
  OpenForWriting(UnsyncedFilesystem& fs, NodePtr node, std::string path)
      : fs_(fs), node_(std::move(node)), path_(std::move(path)), crashes_(fs.crashes_) {}

  Status Append(ByteView bytes) override {
    const std::lock_guard lock(fs_.mutex_);
    PULSE_RETURN_IF_ERROR(CheckOpen("write"));
    if (node_->bytes.use_count() > 1) node_->bytes = std::make_shared<Bytes>(*node_->bytes);
    node_->bytes->insert(node_->bytes->end(), bytes.begin(), bytes.end());
    node_->modified_unix_ns = fs_.clock_.UnixNs();
    return OkStatus();
  }

  Status Sync() override {
    const std::lock_guard lock(fs_.mutex_);
    PULSE_RETURN_IF_ERROR(CheckOpen("fsync"));
    fs_.last_modified_ns_ = std::max(fs_.clock_.UnixNs(), fs_.last_modified_ns_ + 1);
    node_->modified_unix_ns = fs_.last_modified_ns_;
    node_->synced_bytes = node_->bytes;
    return OkStatus();
  }

  Status Close() override {
    const std::lock_guard lock(fs_.mutex_);
    PULSE_RETURN_IF_ERROR(CheckOpen("close"));
    closed_ = true;
    return OkStatus();
  }

 private:
  Status CheckOpen(std::string_view call) const {
    if (closed_) return CallError(EBADF, call, path_);
    if (crashes_ == fs_.crashes_) return OkStatus();
    return Unavailable("{} {}: the machine has crashed since it was opened", call, path_);
  }

  UnsyncedFilesystem& fs_;
  NodePtr node_;
  std::string path_;
  const uint64_t crashes_;
  bool closed_ = false;
};

class UnsyncedFilesystem::Held final : public FileLock {
 public:
  Held(UnsyncedFilesystem& fs, NodePtr node) : fs_(fs), node_(std::move(node)) {}
  ~Held() override {
    const std::lock_guard lock(fs_.mutex_);
    node_->locked = false;  // after a crash nobody looks at this node
    fs_.unlocked_.notify_all();
  }

 private:
  UnsyncedFilesystem& fs_;
  NodePtr node_;
};

UnsyncedFilesystem::UnsyncedFilesystem(const Clock& clock) : clock_(clock) {
  root_ = MakeNode(Kind::kDirectory);
}

UnsyncedFilesystem::~UnsyncedFilesystem() = default;

UnsyncedFilesystem::NodePtr UnsyncedFilesystem::MakeNode(Kind kind) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->id = ++last_id_;
  node->modified_unix_ns = clock_.UnixNs();
  return node;
}

StatusOr<UnsyncedFilesystem::Place> UnsyncedFilesystem::Find(const std::string& path,
                                                             std::string_view call,
                                                             bool follow) const {
  std::vector<std::string> rest = Split(path);  // from its end
  std::reverse(rest.begin(), rest.end());
  std::vector<Place> trail = {{nullptr, "", root_}};
  int symlinks = 0;
  while (!rest.empty()) {
    const std::string name = std::move(rest.back());
    rest.pop_back();
    const NodePtr folder = trail.back().node;
    if (folder == nullptr) return CallError(ENOENT, call, path);
    if (folder->kind != Kind::kDirectory) return CallError(ENOTDIR, call, path);
    if (name == ".") continue;
    if (name == "..") {
      if (trail.size() > 1) trail.pop_back();
      continue;
    }
    const auto found = folder->names.find(name);
    const NodePtr node = found == folder->names.end() ? nullptr : found->second;
    if (node == nullptr || node->kind != Kind::kSymlink || (rest.empty() && !follow)) {
      trail.push_back({folder, name, node});
      continue;
    }
    if (++symlinks > kMaxSymlinks) return CallError(ELOOP, call, path);
    if (node->target.starts_with('/')) trail.resize(1);
    const std::vector<std::string> target = Split(node->target);
    rest.insert(rest.end(), target.rbegin(), target.rend());
  }
  return trail.back();
}

StatusOr<UnsyncedFilesystem::NodePtr> UnsyncedFilesystem::FindExisting(const std::string& path,
                                                                       std::string_view call,
                                                                       bool follow) const {
  PULSE_ASSIGN_OR_RETURN(Place place, Find(path, call, follow));
  if (place.node == nullptr) return CallError(ENOENT, call, path);
  return std::move(place.node);
}

// All changes of one operation follow one ++operation_.
void UnsyncedFilesystem::SetName(const NodePtr& folder, const std::string& name, NodePtr node) {
  if (node == nullptr) {
    folder->names.erase(name);
  } else {
    folder->names[name] = node;
  }
  folder->modified_unix_ns = clock_.UnixNs();
  changes_.push_back({operation_, folder, name, std::move(node)});
}

void UnsyncedFilesystem::SyncNames(const NodePtr& folder) {
  folder->synced_names = folder->names;
  std::erase_if(changes_, [&](const NameChange& change) { return change.folder == folder; });
}

StatusOr<std::unique_ptr<ReadableFile>> UnsyncedFilesystem::Open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(path, "open", true));
  if (node->kind != Kind::kFile) return InvalidArgument("open {}: it is a folder", path);
  return std::make_unique<MemoryReadableFile>(node->bytes, node->Entry(""), path);
}

StatusOr<std::unique_ptr<WritableFile>> UnsyncedFilesystem::Create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const Place place, Find(path, "create", false));
  if (place.node != nullptr) return CallError(EEXIST, "create", path);
  const NodePtr node = MakeNode(Kind::kFile);
  ++operation_;
  SetName(place.folder, place.name, node);
  return std::make_unique<OpenForWriting>(*this, node, path);
}

StatusOr<DirectoryEntry> UnsyncedFilesystem::Stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(path, "stat", true));
  return node->Entry(path.substr(path.rfind('/') + 1));
}

StatusOr<std::vector<DirectoryEntry>> UnsyncedFilesystem::List(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(path, "opendir", true));
  if (node->kind != Kind::kDirectory) return CallError(ENOTDIR, "opendir", path);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, child] : node->names) entries.push_back(child->Entry(name));
  return entries;
}

Status UnsyncedFilesystem::CreateDirectories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::string part = path.starts_with('/') ? "/" : "";
  for (const std::string& name : Split(path)) {
    part += name + '/';
    PULSE_ASSIGN_OR_RETURN(const Place place, Find(part, "mkdir", true));
    if (place.node != nullptr && place.node->kind != Kind::kDirectory) {
      return AlreadyExists("mkdir {}: {} is a file", path, part);
    }
    if (place.node != nullptr) continue;
    ++operation_;
    SetName(place.folder, place.name, MakeNode(Kind::kDirectory));
    SyncNames(place.folder);
  }
  return OkStatus();
}

Status UnsyncedFilesystem::SyncDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(path, "open folder", true));
  if (node->kind != Kind::kDirectory) return CallError(ENOTDIR, "open folder", path);
  SyncNames(node);
  return OkStatus();
}

Status UnsyncedFilesystem::CheckReplaceable(const Place& from, const Place& to,
                                            std::string_view what) const {
  const bool moves_folder = from.node->kind == Kind::kDirectory;
  const bool onto_folder = to.node != nullptr && to.node->kind == Kind::kDirectory;
  if (onto_folder && !moves_folder) return CallError(EISDIR, "rename", std::string(what));
  if (to.node != nullptr && moves_folder && !onto_folder) {
    return CallError(ENOTDIR, "rename", std::string(what));
  }
  if (onto_folder && !to.node->names.empty()) {
    return FailedPrecondition("rename {}: that folder is not empty", what);
  }
  return OkStatus();
}

Status UnsyncedFilesystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const std::string what = from + " to " + to;
  PULSE_ASSIGN_OR_RETURN(const Place source, Find(from, "rename", false));
  PULSE_ASSIGN_OR_RETURN(const Place target, Find(to, "rename", false));
  if (source.node == nullptr) return CallError(ENOENT, "rename", what);
  if (source.folder == nullptr || target.folder == nullptr)
    return CallError(EINVAL, "rename", what);
  if (source.node == target.node) return OkStatus();
  PULSE_RETURN_IF_ERROR(CheckReplaceable(source, target, what));
  ++operation_;
  SetName(target.folder, target.name, source.node);
  SetName(source.folder, source.name, nullptr);
  return OkStatus();
}

Status UnsyncedFilesystem::Link(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(from, "link", false));
  PULSE_ASSIGN_OR_RETURN(const Place target, Find(to, "link", false));
  if (target.node != nullptr) return CallError(EEXIST, "link", from + " to " + to);
  if (node->kind == Kind::kDirectory) return Unimplemented("link {}: it is a folder", from);
  ++operation_;
  SetName(target.folder, target.name, node);
  return OkStatus();
}

Status UnsyncedFilesystem::Symlink(const std::string& target, const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const Place place, Find(path, "symlink", false));
  if (place.node != nullptr) return CallError(EEXIST, "symlink", path);
  const NodePtr node = MakeNode(Kind::kSymlink);
  node->target = target;
  ++operation_;
  SetName(place.folder, place.name, node);
  return OkStatus();
}

StatusOr<std::string> UnsyncedFilesystem::ReadSymlink(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const NodePtr node, FindExisting(path, "readlink", false));
  if (node->kind != Kind::kSymlink) return CallError(EINVAL, "readlink", path);
  return node->target;
}

Status UnsyncedFilesystem::Remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const Place place, Find(path, "unlink", false));
  if (place.node == nullptr) return CallError(ENOENT, "unlink", path);
  if (place.folder == nullptr || !place.node->names.empty()) {
    return FailedPrecondition("rmdir {}: the folder is not empty", path);
  }
  ++operation_;
  SetName(place.folder, place.name, nullptr);
  return OkStatus();
}

StatusOr<std::unique_ptr<FileLock>> UnsyncedFilesystem::Lock(const std::string& path,
                                                             Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (true) {  // the file may be removed or crash away meanwhile, so it is looked up each time
    PULSE_ASSIGN_OR_RETURN(const Place place, Find(path, "open lock", true));
    NodePtr node = place.node;
    if (node == nullptr) {
      node = MakeNode(Kind::kFile);
      ++operation_;
      SetName(place.folder, place.name, node);
    }
    if (!node->locked) {
      node->locked = true;
      return std::make_unique<Held>(*this, node);
    }
    if (deadline.Expired()) return DeadlineExceeded("lock {}: another holds it", path);
    // Woken by whoever lets go; the short wait is for a deadline on a clock that we can't wait on.
    unlocked_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

UnsyncedFilesystem::NodePtr UnsyncedFilesystem::Survivor(
    const NodePtr& node, const std::function<Contents(const Node&)>& contents,
    std::map<const Node*, NodePtr>& survivors) {
  NodePtr& survivor = survivors[node.get()];
  if (survivor != nullptr) return survivor;  // another name of it
  survivor = MakeNode(node->kind);
  survivor->id = node->id;
  survivor->modified_unix_ns = node->modified_unix_ns;
  survivor->target = node->target;
  survivor->bytes = survivor->synced_bytes = contents(*node);
  for (const auto& [name, child] : node->synced_names) {
    survivor->names[name] = Survivor(child, contents, survivors);
  }
  survivor->synced_names = survivor->names;
  return survivor;
}

void UnsyncedFilesystem::CrashLocked(const std::function<Contents(const Node&)>& contents) {
  std::map<const Node*, NodePtr> survivors;
  root_ = Survivor(root_, contents, survivors);
  changes_.clear();
  ++crashes_;
  unlocked_.notify_all();
}

void UnsyncedFilesystem::Crash() {
  const std::lock_guard lock(mutex_);
  CrashLocked([](const Node& node) { return node.synced_bytes; });
}

void UnsyncedFilesystem::CrashKeepingSome(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  Rng rng(seed, {.use = RngUse::kTest});
  std::map<uint64_t, bool> kept;  // by operation
  for (const NameChange& change : changes_) {
    const auto [it, first] = kept.try_emplace(change.operation, false);
    if (first) it->second = rng.Below(2) == 1;
    if (!it->second) continue;
    if (change.node == nullptr) {
      change.folder->synced_names.erase(change.name);
    } else {
      change.folder->synced_names[change.name] = change.node;
    }
  }
  CrashLocked([&](const Node& node) {
    const size_t all = node.bytes->size(), synced = node.synced_bytes->size();
    const uint32_t outcome = all == synced ? 0 : rng.Below(4);
    if (outcome == 0) return node.synced_bytes;
    auto bytes = std::make_shared<Bytes>(*node.bytes);
    if (outcome == 1) return bytes;
    bytes->resize(synced + rng.Below(static_cast<uint32_t>(all - synced)));
    if (outcome == 3) bytes->resize(all);  // the new size was written, not all of the data
    return bytes;
  });
}

void UnsyncedFilesystem::Report(const Node& folder, const std::string& path,
                                std::vector<std::string>& lines) const {
  std::map<std::string, const Node*> before, now;
  for (const auto& [name, node] : folder.synced_names) before[name] = node.get();
  for (const auto& [name, node] : folder.names) now[name] = node.get();
  for (const auto& [name, node] : before) {
    if (!now.contains(name)) lines.push_back(fmt::format("{}/{} was removed", path, name));
  }
  for (const auto& [name, node] : now) {
    const auto old = before.find(name);
    if (old == before.end()) lines.push_back(fmt::format("{}/{} was made", path, name));
    if (old != before.end() && old->second != node) {
      lines.push_back(fmt::format("{}/{} was replaced", path, name));
    }
    if (node->bytes->size() != node->synced_bytes->size()) {
      lines.push_back(fmt::format("{}/{} has {} bytes, {} synced", path, name, node->bytes->size(),
                                  node->synced_bytes->size()));
    }
    if (node->kind == Kind::kDirectory) Report(*node, path + "/" + name, lines);
  }
}

std::vector<std::string> UnsyncedFilesystem::Unsynced() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  Report(*root_, "", lines);
  return lines;
}

}  // namespace pulse
