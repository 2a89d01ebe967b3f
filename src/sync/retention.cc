#include "sync/retention.h"

#include <algorithm>
#include <map>
#include <set>

namespace pulse {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr std::string_view kManifestName = "manifest.json";

// An attempt's folder as it is listed.
struct Folder {
  VersionId id;
  std::vector<ObjectInfo> objects;
  int64_t youngest_unix_ns = 0;
};

// By name; what is no attempt of ours is left out, and never touched.
std::map<std::string, Folder> GroupByFolder(const ListPage& listing, const std::string& prefix) {
  std::map<std::string, Folder> folders;
  for (const ObjectInfo& object : listing.objects) {
    const std::string rest = object.key.substr(prefix.size());
    const std::string name = rest.substr(0, rest.find('/'));
    const auto id = VersionId::FromFolder(name);
    if (!id) continue;
    Folder& folder = folders[name];
    folder.id = *id;
    folder.objects.push_back(object);
    folder.youngest_unix_ns = std::max(folder.youngest_unix_ns, object.modified_unix_ns);
  }
  return folders;
}

class Planner {
 public:
  Planner(const Clock& clock, const RetentionOptions& options, const Head& head)
      : now_ns_(clock.UnixNs()), options_(options), head_(head) {}

  // walked: newest first, all that the head reaches.
  StatusOr<GcPlan> Plan(const std::vector<Manifest>& walked,
                        std::map<std::string, Folder> folders) {
    folders_ = std::move(folders);
    PULSE_ASSIGN_OR_RETURN(const size_t kept, CountKept(walked));
    plan_.kept_versions = kept;
    if (kept > 0) plan_.oldest_kept = walked[kept - 1].id.number;
    for (size_t i = 0; i < walked.size(); ++i) {
      const auto folder = folders_.extract(walked[i].id.Folder());
      if (folder.empty()) continue;
      if (i < kept) {
        AddStrays(folder.mapped(), walked[i]);
      } else {
        Add(folder.mapped(), fmt::format("version {} is not kept", walked[i].id.number),
            /*chain=*/true);
      }
    }
    for (const auto& [name, folder] : folders_) AddUnreached(folder);
    return std::move(plan_);
  }

 private:
  bool IsYoung(int64_t modified_unix_ns) const {
    // A store whose clock is ahead of ours makes things young, never old.
    return std::max<int64_t>(now_ns_ - modified_unix_ns, 0) < options_.min_age_ms * kNsPerMs;
  }

  bool Wanted(const Manifest& manifest, size_t index) const {
    // The head's own version stays whatever the options say.
    if (index < std::max<uint64_t>(options_.keep_versions, 1)) return true;
    if (now_ns_ / kNsPerMs - manifest.created_unix_ms < options_.keep_age_ms) return true;
    const auto folder = folders_.find(manifest.id.Folder());
    return folder != folders_.end() && IsYoung(folder->second.youngest_unix_ns);
  }

  // The first so many of `walked` stay: the wanted ones, and what they are rebuilt from.
  StatusOr<size_t> CountKept(const std::vector<Manifest>& walked) const {
    size_t kept = 0;
    for (size_t i = 0; i < walked.size(); ++i) {
      if (Wanted(walked[i], i)) kept = i + 1;
    }
    if (kept == 0) return kept;
    while (!walked[kept - 1].has(PayloadRole::kAnchor)) {
      if (kept == walked.size()) {
        return DataLoss("version {} can't be rebuilt: there is no anchor below it",
                        walked[kept - 1].id.number);
      }
      ++kept;
    }
    return kept;
  }

  void AddUnreached(const Folder& folder) {
    const VersionId& id = folder.id;
    const uint64_t newest = head_.version ? head_.version->id.number : 0;
    // Such an attempt can never become the head's: its epoch is fenced off, or its number is taken.
    if (id.epoch < head_.epoch || (id.epoch == head_.epoch && id.number <= newest)) {
      Add(folder, fmt::format("left by attempt {}.{}, which lost", id.epoch, id.number),
          /*chain=*/false);
      return;
    }
    for (const ObjectInfo& object : folder.objects) {
      plan_.spared.push_back({object.key, object.bytes,
                              fmt::format("attempt {}.{} may be in flight", id.epoch, id.number)});
    }
  }

  void AddStrays(const Folder& folder, const Manifest& manifest) {
    std::set<std::string> named = {std::string(kManifestName)};
    for (const ManifestObject& object : manifest.objects) named.insert(object.Name());
    for (const ObjectInfo& object : folder.objects) {
      if (named.contains(NameIn(object))) continue;
      AddObject(object, fmt::format("version {} does not name it", manifest.id.number), false);
    }
  }

  // The manifest first.
  void Add(Folder folder, const std::string& why, bool chain) {
    std::stable_partition(
        folder.objects.begin(), folder.objects.end(),
        [](const ObjectInfo& object) { return NameIn(object) == kManifestName; });
    for (const ObjectInfo& object : folder.objects) AddObject(object, why, chain);
  }

  void AddObject(const ObjectInfo& object, const std::string& why, bool chain) {
    GcItem item = {object.key, object.bytes, why, chain, NameIn(object) == kManifestName};
    if (IsYoung(object.modified_unix_ns)) {
      item.why += ", but is young";
      plan_.spared.push_back(std::move(item));
    } else {
      plan_.bytes += item.bytes;
      plan_.remove.push_back(std::move(item));
    }
  }

  static std::string NameIn(const ObjectInfo& object) {
    return object.key.substr(object.key.rfind('/') + 1);
  }

  const int64_t now_ns_;
  const RetentionOptions& options_;
  const Head& head_;
  std::map<std::string, Folder> folders_;
  GcPlan plan_;
};

}  // namespace

StatusOr<GcPlan> PlanGc(Store& store, const Clock& clock, const RetentionOptions& options) {
  PULSE_ASSIGN_OR_RETURN(ChainReader chain, ChainReader::Open(store, options.chain));
  PULSE_ASSIGN_OR_RETURN(const HeadAt head, chain.Head());
  std::vector<Manifest> walked;
  if (head.head.version) {
    auto found = chain.Walk(*head.head.version, [](const Manifest&) { return false; });
    if (absl::IsNotFound(found.status())) {
      return DataLoss("the head's version has no manifest: {}", ToStd(found.status().message()));
    }
    PULSE_RETURN_IF_ERROR(found.status());
    walked = *std::move(found);
  }
  const std::string prefix = RunPrefix(options.chain.run);
  PULSE_ASSIGN_OR_RETURN(const ListPage listing, ListAll(store, prefix, /*delimited=*/false));
  return Planner(clock, options, head.head).Plan(walked, GroupByFolder(listing, prefix));
}

GcResult ExecuteGc(Store& store, const GcPlan& plan) {
  GcResult result;
  bool chain_stands = false;
  for (const GcItem& item : plan.remove) {
    if (item.chain && chain_stands) continue;
    const Status removed = store.Delete(item.key);
    if (removed.ok()) {
      ++result.removed;
      result.bytes += item.bytes;
      continue;
    }
    result.errors.push_back(fmt::format("{}: {}", item.key, ToStd(removed.message())));
    // A walk may still reach this version, so nothing that it needs may go.
    chain_stands = chain_stands || (item.chain && item.manifest);
  }
  return result;
}

}  // namespace pulse
