#include "sync/verify.h"

#include <algorithm>
#include <set>

#include "core/digest.h"
#include "sync/byte_sources.h"
#include "sync/in_order.h"
#include "sync/patch.h"

namespace pulse {
namespace {

constexpr std::string_view kRuns = "runs/";

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
  using Files = std::vector<std::shared_ptr<const PayloadFile>>;

  // One version while a stretch of the chain is rebuilt.
  struct Layer {
    const Manifest* manifest;
    Files files;
    std::unique_ptr<PayloadView> view;  // of what it promises; it is read by CellReaders' own
    std::vector<Digest> chunks;         // of the current tensor so far
    ViewDigests digests;
  };

  // One cell in all versions: the digests of its chunks. Fewer versions than there are: the next
  // one could not be read.
  struct CellDigests {
    std::vector<std::vector<Digest>> layers;
    Status status;
  };

  // A thread's own stack of views, each on the cell that the one below has made.
  class CellReader {
   public:
    CellReader(const kernels::KernelTable& kernels, const std::vector<Files>& versions,
               const std::vector<TensorRange>& cells)
        : cells_(cells), holder_(std::make_unique<CellHolder>(versions.front().front()->schema())) {
      for (const Files& files : versions) {
        auto view = PayloadView::Make(kernels, files, views_.empty() ? nullptr : holder_.get());
        if (!view.ok()) status_ = view.status();  // a bug: it could be made before
        if (!view.ok()) break;
        views_.push_back(*std::move(view));
      }
    }

    StatusOr<CellDigests> operator()(size_t cell) {
      PULSE_RETURN_IF_ERROR(status_);
      CellDigests found;
      for (const auto& view : views_) {
        const auto bytes = view->Read(cells_[cell], scratch_);
        found.status = bytes.status();
        if (!bytes.ok()) break;
        std::vector<Digest>& chunks = found.layers.emplace_back();
        for (size_t at = 0; at < bytes->size(); at += kDigestChunkBytes) {
          chunks.push_back(
              DigestOf(bytes->subspan(at, std::min(kDigestChunkBytes, bytes->size() - at))));
        }
        if (bytes->data() != holder_->cell.data()) {
          holder_->cell.assign(bytes->begin(), bytes->end());
        }
      }
      return found;
    }

   private:
    const std::vector<TensorRange>& cells_;
    std::unique_ptr<CellHolder> holder_;  // where it lies is what the views know
    std::vector<std::unique_ptr<PayloadView>> views_;
    Bytes scratch_;
    Status status_;
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

  StatusOr<Layer> OpenPayload(const Manifest& manifest, PayloadRole role, const ViewSource* base) {
    Layer layer = {&manifest, {}, nullptr, {}, {}};
    for (const ManifestObject& object : manifest.objects) {
      if (object.role != role) continue;
      PULSE_ASSIGN_OR_RETURN(
          auto file,
          PayloadFile::Open(std::make_shared<ObjectSource>(
              store_, ObjectKey(chain_.run(), manifest.id, object.Name()), object.bytes)));
      PULSE_RETURN_IF_ERROR(CheckPayload(manifest, role, *file));
      layer.files.push_back(std::move(file));
    }
    PULSE_ASSIGN_OR_RETURN(layer.view, PayloadView::Make(kernels_, layer.files, base));
    return layer;
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
    auto anchor = OpenPayload(manifests_[begin], PayloadRole::kAnchor, nullptr);
    if (IsSilence(anchor.status())) return anchor.status();
    if (!anchor.ok()) {
      Problem(manifests_[begin], anchor.status());
      return OkStatus();
    }
    const ModelSchema& schema = anchor->view->schema();
    const CellHolder holder(schema);  // for the schema alone
    layers.push_back(*std::move(anchor));
    for (size_t i = begin + 1; i < end; ++i) {
      auto layer = OpenPayload(manifests_[i], PayloadRole::kDelta, &holder);
      if (IsSilence(layer.status())) return layer.status();
      if (!layer.ok()) {
        Problem(manifests_[i], layer.status());
        break;
      }
      layers.push_back(*std::move(layer));
    }
    PULSE_RETURN_IF_ERROR(ReadCells(schema, layers));
    for (size_t i = 0; i < layers.size(); ++i) {
      Layer& layer = layers[i];
      layer.digests.view = ViewDigest(schema, layer.digests.tensors);
      const Status same = layer.view->CheckDigests(layer.digests);
      if (!same.ok()) {
        Problem(*layer.manifest, same);
      }
      rebuilt.insert(begin + i);
    }
    return OkStatus();
  }

  // Layers that can't be read are reported and cut off.
  Status ReadCells(const ModelSchema& schema, std::vector<Layer>& layers) {
    const std::vector<TensorRange> cells = AllCells(schema);
    std::vector<Files> versions;  // as at the start: threads read them while layers are cut off
    for (const Layer& layer : layers) versions.push_back(layer.files);
    const auto take = [&](size_t i, const CellDigests& found) -> Status {
      if (found.layers.size() < layers.size()) {
        if (IsSilence(found.status)) return found.status;
        Problem(*layers[found.layers.size()].manifest, found.status);
        layers.erase(layers.begin() + static_cast<ptrdiff_t>(found.layers.size()), layers.end());
      }
      const bool ends_tensor = cells[i].end == schema.tensors()[cells[i].tensor].bytes();
      for (size_t l = 0; l < layers.size(); ++l) {
        Layer& layer = layers[l];
        layer.chunks.insert(layer.chunks.end(), found.layers[l].begin(), found.layers[l].end());
        if (!ends_tensor) continue;
        layer.digests.tensors.push_back(CombineChunks(layer.chunks));
        layer.chunks.clear();
      }
      return OkStatus();
    };
    return ProduceInOrder<CellDigests>(
        cells.size(), options_.threads, [&] { return CellReader(kernels_, versions, cells); },
        take);
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

StatusOr<std::vector<std::string>> ListBesideRuns(Store& store) {
  PULSE_ASSIGN_OR_RETURN(const ListPage page, ListAll(store, "", /*delimited=*/true));
  std::vector<std::string> names;
  for (const std::string& prefix : page.prefixes) {
    if (prefix != kRuns) names.push_back(prefix);
  }
  for (const ObjectInfo& object : page.objects) names.push_back(object.key);
  return names;
}

StatusOr<std::vector<std::string>> ListRuns(Store& store) {
  PULSE_ASSIGN_OR_RETURN(const ListPage page, ListAll(store, kRuns, /*delimited=*/true));
  std::vector<std::string> runs;
  for (const std::string& prefix : page.prefixes) {
    std::string name = prefix.substr(kRuns.size(), prefix.size() - kRuns.size() - 1);
    if (CheckRunName(name).ok()) runs.push_back(std::move(name));
  }
  return runs;
}

}  // namespace pulse
