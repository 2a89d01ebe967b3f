#include "sync/verify.h"

#include <algorithm>
#include <set>

#include "core/digest.h"
#include "sync/byte_sources.h"
#include "sync/patch.h"

namespace pulse {
namespace {

// Errors that say that the store could not be asked, and nothing about what it holds.
bool IsSilence(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

// The cell that the version below has just made.
class CellHolder final : public ViewSource {
 public:
  explicit CellHolder(const ModelSchema& schema) : schema_(schema) {}
  Bytes cell;

  const ModelSchema& schema() const override { return schema_; }
  StatusOr<ByteView> Read(const TensorRange&, Bytes&) const override { return ByteView(cell); }

 private:
  const ModelSchema& schema_;
};

class Verifier {
 public:
  Verifier(Store& store, const kernels::KernelTable& kernels, const VerifyOptions& options,
           ChainReader chain)
      : store_(store), kernels_(kernels), options_(options), chain_(std::move(chain)) {}

  StatusOr<VerifyReport> Run() {
    PULSE_ASSIGN_OR_RETURN(const ListPage listing,
                           ListAll(store_, RunPrefix(chain_.run()), /*delimited=*/false));
    for (const ObjectInfo& object : listing.objects) stray_.insert(object.key);
    auto head = chain_.Head();
    if (IsSilence(head.status())) return head.status();
    if (!head.ok()) {
      Problem(head.status());
      return std::move(report_);
    }
    Found(HeadKey(chain_.run()));
    if (head->head.version) {
      PULSE_RETURN_IF_ERROR(ReadManifests(*head->head.version));
      PULSE_RETURN_IF_ERROR(CheckObjects());
      PULSE_RETURN_IF_ERROR(RebuildAll());
    }
    report_.orphans.assign(stray_.begin(), stray_.end());
    return std::move(report_);
  }

 private:
  // One version while a stretch of the chain is rebuilt.
  struct Layer {
    const Manifest* manifest;
    std::unique_ptr<PayloadView> view;
    TensorDigester digester;
    ViewDigests digests;
  };

  void Problem(std::string line) { report_.problems.push_back(std::move(line)); }
  void Problem(const Status& status) { Problem(std::string(ToStd(status.message()))); }
  void Problem(const Manifest& manifest, const Status& status) {
    Problem(Annotate(status, fmt::format("version {}", manifest.id.number)));
  }
  void Found(const std::string& key) { stray_.erase(key); }

  // Fills manifests_, oldest first.
  Status ReadManifests(const VersionRef& newest) {
    std::optional<VersionRef> ref = newest;
    while (ref) {
      auto manifest = chain_.Load(*ref);
      if (IsSilence(manifest.status())) return manifest.status();
      const bool ends_here = absl::IsNotFound(manifest.status()) && !manifests_.empty() &&
                             manifests_.back().has(PayloadRole::kAnchor);
      if (ends_here) break;
      Found(ManifestKey(chain_.run(), ref->id));
      if (!manifest.ok()) {
        Problem(Annotate(manifest.status(), fmt::format("version {}", ref->id.number)));
        break;
      }
      if (!manifests_.empty()) {
        const Status follows = CheckSuccession(*manifest, manifests_.back());
        if (!follows.ok()) Problem(follows);
      }
      ref = manifest->parent;
      manifests_.push_back(*std::move(manifest));
    }
    std::ranges::reverse(manifests_);
    return OkStatus();
  }

  Status CheckObjects() {
    for (const Manifest& manifest : manifests_) {
      for (const ManifestObject& object : manifest.objects) {
        Found(ObjectKey(chain_.run(), manifest.id, object.Name()));
        const Status fetched = chain_.Fetch(manifest, object, [&](ByteView piece) {
          Progress(piece.size());
          return OkStatus();
        });
        if (IsSilence(fetched)) return fetched;
        if (!fetched.ok()) Problem(fetched);
        ++report_.objects;
        report_.bytes += object.bytes;
      }
    }
    return OkStatus();
  }

  void Progress(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_);
  }

  StatusOr<std::unique_ptr<PayloadView>> OpenPayload(const Manifest& manifest, PayloadRole role,
                                                     const ViewSource* base) {
    std::vector<std::shared_ptr<const PayloadFile>> files;
    for (const ManifestObject& object : manifest.objects) {
      if (object.role != role) continue;
      PULSE_ASSIGN_OR_RETURN(
          auto file,
          PayloadFile::Open(std::make_shared<ObjectSource>(
              store_, ObjectKey(chain_.run(), manifest.id, object.Name()), object.bytes)));
      PULSE_RETURN_IF_ERROR(CheckPayload(manifest, role, *file));
      files.push_back(std::move(file));
    }
    return PayloadView::Make(kernels_, std::move(files), base);
  }

  // From each anchor, all versions that are deltas upon it; then the anchors beside deltas alone.
  Status RebuildAll() {
    std::set<size_t> rebuilt;
    for (size_t i = 0; i < manifests_.size(); ++i) {
      if (!manifests_[i].has(PayloadRole::kAnchor)) continue;
      size_t end = i + 1;
      while (end < manifests_.size() && manifests_[end].has(PayloadRole::kDelta)) {
        // The delta into the next anchor is checked too; its copy starts the next stretch.
        ++end;
        if (manifests_[end - 1].has(PayloadRole::kAnchor)) break;
      }
      PULSE_RETURN_IF_ERROR(RebuildStretch(i, end, rebuilt));
    }
    for (size_t i = 0; i < manifests_.size(); ++i) {
      if (rebuilt.contains(i)) continue;
      Problem(
          fmt::format("version {} can't be rebuilt from what is here", manifests_[i].id.number));
    }
    report_.versions = rebuilt.size();
    return OkStatus();
  }

  // manifests_[begin] is an anchor, those up to `end` are deltas upon it. Each cell is read once
  // and goes up through all versions.
  Status RebuildStretch(size_t begin, size_t end, std::set<size_t>& rebuilt) {
    std::vector<Layer> layers;
    const auto anchor = OpenPayload(manifests_[begin], PayloadRole::kAnchor, nullptr);
    if (IsSilence(anchor.status())) return anchor.status();
    if (!anchor.ok()) {
      Problem(manifests_[begin], anchor.status());
      return OkStatus();
    }
    CellHolder holder((*anchor)->schema());
    for (size_t i = begin + 1; i < end; ++i) {
      auto view = OpenPayload(manifests_[i], PayloadRole::kDelta, &holder);
      if (IsSilence(view.status())) return view.status();
      if (!view.ok()) {
        Problem(manifests_[i], view.status());
        break;
      }
      layers.push_back({&manifests_[i], *std::move(view), {}, {}});
    }
    layers.insert(layers.begin(), Layer{&manifests_[begin], nullptr, {}, {}});
    PULSE_RETURN_IF_ERROR(ReadCells(**anchor, holder, layers));
    for (size_t i = 0; i < layers.size(); ++i) {
      Layer& layer = layers[i];
      layer.digests.view = ViewDigest(holder.schema(), layer.digests.tensors);
      const PayloadView& view = layer.view ? *layer.view : **anchor;
      const Status same = view.CheckDigests(layer.digests);
      if (!same.ok()) {
        Problem(*layer.manifest, same);
      }
      rebuilt.insert(begin + i);
    }
    return OkStatus();
  }

  // Layers that can't be read are reported and cut off.
  Status ReadCells(const PayloadView& anchor, CellHolder& holder, std::vector<Layer>& layers) {
    Bytes scratch;
    for (const TensorRange& cell : AllCells(holder.schema())) {
      const bool ends_tensor = cell.end == holder.schema().tensors()[cell.tensor].bytes();
      for (size_t i = 0; i < layers.size(); ++i) {
        Layer& layer = layers[i];
        const auto bytes =
            layer.view ? layer.view->Read(cell, scratch) : anchor.Read(cell, scratch);
        if (IsSilence(bytes.status())) return bytes.status();
        if (!bytes.ok()) {
          Problem(*layer.manifest, bytes.status());
          layers.erase(layers.begin() + static_cast<ptrdiff_t>(i), layers.end());
          break;
        }
        layer.digester.Update(*bytes);
        if (ends_tensor) layer.digests.tensors.push_back(layer.digester.Finish());
        if (ends_tensor) layer.digester = TensorDigester();
        if (bytes->data() != holder.cell.data()) holder.cell.assign(bytes->begin(), bytes->end());
      }
    }
    return OkStatus();
  }

  Store& store_;
  const kernels::KernelTable& kernels_;
  const VerifyOptions& options_;
  ChainReader chain_;
  VerifyReport report_;
  std::set<std::string> stray_;  // keys that nothing has named yet
  std::vector<Manifest> manifests_;
  uint64_t done_ = 0;
};

}  // namespace

StatusOr<VerifyReport> VerifyRun(Store& store, const kernels::KernelTable& kernels,
                                 const VerifyOptions& options) {
  PULSE_ASSIGN_OR_RETURN(ChainReader chain, ChainReader::Open(store, options.chain));
  return Verifier(store, kernels, options, std::move(chain)).Run();
}

StatusOr<std::vector<std::string>> ListRuns(Store& store) {
  constexpr std::string_view kRuns = "runs/";
  PULSE_ASSIGN_OR_RETURN(const ListPage page, ListAll(store, kRuns, /*delimited=*/true));
  std::vector<std::string> runs;
  for (const std::string& prefix : page.prefixes) {
    std::string name = prefix.substr(kRuns.size(), prefix.size() - kRuns.size() - 1);
    if (CheckRunName(name).ok()) runs.push_back(std::move(name));
  }
  return runs;
}

}  // namespace pulse
