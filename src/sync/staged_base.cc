#include "sync/staged_base.h"

#include <algorithm>
#include <cstring>

#include "sync/byte_sources.h"
#include "sync/patch.h"
#include "sync/patch_writer.h"

namespace pulse {
namespace {

constexpr std::string_view kBasePrefix = "base-";
constexpr std::string_view kBlobsPrefix = "blobs-";

std::vector<TensorRange> OrWhole(const std::vector<TensorRange>& ranges,
                                 const ModelSchema& schema) {
  return ranges.empty() ? AllCells(schema) : ranges;
}

}  // namespace

class StagedBase::Held final : public ViewSource {
 public:
  Held(ModelSchema schema, std::vector<TensorRange> ranges)
      : schema_(std::move(schema)), ranges_(std::move(ranges)), starts_{0} {
    for (const TensorRange& range : ranges_) starts_.push_back(starts_.back() + range.bytes());
    bytes_.resize(starts_.back());
  }

  const ModelSchema& schema() const override { return schema_; }
  const std::vector<TensorRange>& ranges() const { return ranges_; }

  StatusOr<ByteView> Read(const TensorRange& range, Bytes&) const override {
    const auto after =
        std::ranges::upper_bound(ranges_, range, [](const TensorRange& a, const TensorRange& b) {
          return a.tensor != b.tensor ? a.tensor < b.tensor : a.begin < b.begin;
        });
    const size_t i = static_cast<size_t>(after - ranges_.begin());
    if (i == 0 || ranges_[i - 1].tensor != range.tensor || ranges_[i - 1].end < range.end) {
      return Internal("bytes [{}, {}) of tensor {} are not held", range.begin, range.end,
                      range.tensor);
    }
    return ByteView(bytes_).subspan(starts_[i - 1] + range.begin - ranges_[i - 1].begin,
                                    range.bytes());
  }

  Status Fill(const ViewSource& view) {
    Bytes scratch;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      PULSE_ASSIGN_OR_RETURN(const ByteView from, view.Read(ranges_[i], scratch));
      if (!from.empty()) std::memmove(bytes_.data() + starts_[i], from.data(), from.size());
    }
    return OkStatus();
  }

 private:
  ModelSchema schema_;
  std::vector<TensorRange> ranges_;
  std::vector<uint64_t> starts_;
  Bytes bytes_;
};

StagedBase::StagedBase(Filesystem& fs, const kernels::KernelTable& kernels, std::string directory,
                       BaseKeeping keeping)
    : fs_(fs), kernels_(kernels), directory_(std::move(directory)), keeping_(keeping) {}

StagedBase::~StagedBase() = default;

std::string StagedBase::PathOf(const VersionId& id) const {
  return fmt::format("{}/{}{}.safetensors", directory_, kBasePrefix, id.Folder());
}

void StagedBase::Drop() {
  version_.reset();
  view_.reset();
  held_ = nullptr;
}

StatusOr<std::unique_ptr<const ViewSource>> StagedBase::OpenFile(
    const VersionId& id, const std::vector<TensorRange>& ranges) {
  PULSE_ASSIGN_OR_RETURN(auto source, MappedSource::Open(fs_, PathOf(id)));
  PULSE_ASSIGN_OR_RETURN(auto file, PayloadFile::Open(std::move(source)));
  PULSE_ASSIGN_OR_RETURN(auto view,
                         PayloadView::Make(kernels_, {std::move(file)}, nullptr, ranges));
  return std::unique_ptr<const ViewSource>(std::move(view));
}

bool StagedBase::Load(const VersionId& id, const std::vector<TensorRange>& ranges) {
  if (view_ && version_ == id) return true;
  if (directory_.empty()) return false;
  auto view = OpenFile(id, ranges);
  if (!view.ok()) return false;
  view_ = *std::move(view);
  version_ = id;
  return true;
}

Status StagedBase::Stage(const VersionId& id, const ViewSource& view,
                         const std::vector<TensorRange>& ranges, bool unchanged) {
  if (directory_.empty()) return OkStatus();
  if (unchanged && version_) {
    const Status linked = fs_.Link(PathOf(*version_), PathOf(id));
    if (linked.ok()) return SyncDirectoryWherePossible(fs_, directory_);
    // Without links, or with the old file gone: a copy then.
  }
  PULSE_ASSIGN_OR_RETURN(const auto file,
                         MakeAnchorFile(view, OrWhole(ranges, view.schema()), PayloadInfo()));
  return CopyToFile(fs_, *file, PathOf(id));
}

void StagedBase::Use(const VersionId& id, std::unique_ptr<const ViewSource> view) {
  held_ = nullptr;
  view_ = std::move(view);
  version_ = id;
}

Status StagedBase::Promote(const VersionId& id, const ViewSource& view,
                           const std::vector<TensorRange>& ranges) {
  if (!keeps_copy()) {
    Drop();
    return OkStatus();
  }
  Status status;
  if (directory_.empty()) {
    status = PromoteInMemory(view, ranges);
  } else {
    auto opened = OpenFile(id, ranges);
    status = opened.status();
    if (opened.ok()) view_ = *std::move(opened);
  }
  if (!status.ok()) {
    Drop();
    return status;
  }
  version_ = id;
  RemoveLeftovers(id);
  return OkStatus();
}

Status StagedBase::PromoteInMemory(const ViewSource& view, const std::vector<TensorRange>& ranges) {
  std::vector<TensorRange> owned = OrWhole(ranges, view.schema());
  const bool fits = held_ && held_->schema() == view.schema() && held_->ranges() == owned;
  if (!fits) {
    auto held = std::make_unique<Held>(view.schema(), std::move(owned));
    PULSE_RETURN_IF_ERROR(held->Fill(view));
    held_ = held.get();
    view_ = std::move(held);
    return OkStatus();
  }
  return held_->Fill(view);
}

void StagedBase::RemoveLeftovers(const std::optional<VersionId>& keep) {
  if (directory_.empty()) return;
  const auto entries = fs_.List(directory_);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = fmt::format("{}/{}", directory_, entry.name);
    // Whoever holds the folder holds it alone, so nobody is writing a temporary file there.
    const bool leftover = entry.name.starts_with(kBasePrefix) ||
                          entry.name.starts_with(kBlobsPrefix) ||
                          entry.name.find(".tmp-") != std::string::npos;
    if (leftover && (!keep || path != PathOf(*keep))) fs_.Remove(path).IgnoreError();
  }
}

}  // namespace pulse
