#include "sync/foreign/convert.h"

#include <algorithm>

#include "sync/foreign/rebuild.h"
#include "sync/foreign/way.h"

namespace pulse {
namespace {

class NativeChain final : public ChainInput {
 public:
  NativeChain(Filesystem& fs, const kernels::KernelTable& kernels, ChainReader chain,
              std::vector<Manifest> versions)
      : fs_(fs), kernels_(kernels), chain_(std::move(chain)), versions_(std::move(versions)) {}

  size_t size() const override { return versions_.size(); }

  StatusOr<ChainVersion> Make(size_t i, const std::string& path, const ViewSource* before,
                              const Digest& before_digest,
                              const std::function<void(uint64_t)>& on_bytes) override {
    const Manifest& manifest = versions_[i];
    std::optional<LocalVersion> local;
    if (before != nullptr) local = LocalVersion{versions_[i - 1].id, before_digest};
    PULSE_ASSIGN_OR_RETURN(const Plan plan, chain_.PlanTo(manifest.id.number, local));
    const auto open = [&](const PlanStep& step, const ManifestObject& object) {
      return StatusOr<std::shared_ptr<const ByteSource>>(std::make_shared<ObjectSource>(
          chain_.store(), ObjectKey(chain_.run(), step.manifest.id, object.Name()), object.bytes));
    };
    PULSE_ASSIGN_OR_RETURN(const ChainView view,
                           StackPlan(kernels_, plan, plan.from_local ? before : nullptr, open));
    PULSE_ASSIGN_OR_RETURN(const ViewDigests digests,
                           WriteCheckpoint(fs_, path, *view.top,
                                           {.expected = plan.target_digest, .progress = on_bytes}));
    return ChainVersion{manifest.id.number, path, digests.view, manifest.metadata};
  }

 private:
  Filesystem& fs_;
  const kernels::KernelTable& kernels_;
  ChainReader chain_;
  std::vector<Manifest> versions_;  // oldest first
};

class ForeignChain final : public ChainInput {
 public:
  ForeignChain(Store& store, Filesystem& fs, std::shared_ptr<const ForeignFormat> format,
               const ForeignChainOptions& options, std::unique_ptr<Checkpoint> base,
               std::vector<ForeignMark> steps)
      : store_(store),
        fs_(fs),
        format_(std::move(format)),
        options_(options),
        base_(std::move(base)),
        steps_(std::move(steps)) {
    if (base_) base_view_ = std::make_unique<ModelViewSource>(base_->view());
  }

  size_t size() const override { return steps_.size() + BaseVersions(); }

  StatusOr<ChainVersion> Make(size_t i, const std::string& path, const ViewSource* before,
                              const Digest& before_digest,
                              const std::function<void(uint64_t)>& on_bytes) override {
    if (i < BaseVersions()) {
      PULSE_ASSIGN_OR_RETURN(const ViewDigests digests, ComputeDigests(*base_view_));
      return ChainVersion{0, options_.base, digests.view, {}};
    }
    const ForeignMark& mark = steps_[i - BaseVersions()];
    PULSE_ASSIGN_OR_RETURN(const auto version,
                           format_->Open(store_, mark, {.decoder_bytes = options_.decoder_bytes}));
    ForeignBase base;
    if (before != nullptr) {
      base = {before, before_digest, mark.number - 1};
    } else if (base_) {
      base.view = base_view_.get();
    }
    auto digests =
        RebuildForeignVersion(fs_, path, *version, base, {.on_bytes = [&](uint64_t done) {
                                if (on_bytes) on_bytes(done);
                                return OkStatus();
                              }});
    PULSE_RETURN_IF_ERROR(Annotate(digests.status(), store_.uri()));
    return ChainVersion{mark.number,
                        path,
                        digests->view,
                        {{"foreign.format", std::string(format_->name())},
                         {"foreign.version", std::to_string(mark.number)}}};
  }

 private:
  // The base is a version of its own where the chain starts from it.
  size_t BaseVersions() const {
    return base_ && format_->first_number() == 0 && steps_.front().number == 1 ? 1 : 0;
  }

  Store& store_;
  Filesystem& fs_;
  std::shared_ptr<const ForeignFormat> format_;
  ForeignChainOptions options_;
  std::unique_ptr<Checkpoint> base_;
  std::unique_ptr<ModelViewSource> base_view_;
  std::vector<ForeignMark> steps_;
};

class ForeignOutput final : public ChainOutput {
 public:
  ForeignOutput(Filesystem& fs, ForeignChoice choice, ForeignOutputOptions options)
      : fs_(fs), choice_(std::move(choice)), options_(std::move(options)) {}

  Status Add(const ChainVersion& version, const ViewSource* before, const Digest& before_digest,
             const ViewSource& view) override {
    const ForeignFormat& format = *choice_.format;
    if (before == nullptr) {
      // Version 0 is the receiver's own model: a chain that starts with it shifts where the format
      // counts from 1, and is not written where it counts from 0.
      shift_ = version.number == 0 ? format.first_number() : 0;
      if (version.number + shift_ == 0) {
        last_number_ = 0;
        return OkStatus();
      }
    }
    const bool delta = before != nullptr && before->schema() == view.schema() &&
                       version.number == last_number_ + 1;
    last_number_ = version.number;
    ForeignEncodeOptions encode;
    encode.make_spool = [this] {
      return std::make_unique<Spool>(&fs_, fmt::format("{}{}", options_.spool_path, spools_++),
                                     options_.memory_bytes / kMaxForeignSpools);
    };
    PULSE_ASSIGN_OR_RETURN(const auto encoded,
                           format.Encode(delta ? before : nullptr, view, choice_.encoding, encode));
    ForeignLabels labels;
    labels.number = version.number + shift_;
    labels.target_digest = version.digest;
    if (delta) labels.base_digest = before_digest;
    PULSE_ASSIGN_OR_RETURN(const auto objects, encoded->Objects(labels));
    for (const ForeignObject& object : objects) {
      const std::string path = fmt::format("{}/{}", options_.folder, object.key);
      PULSE_RETURN_IF_ERROR(fs_.CreateDirectories(ParentFolder(path)));
      PULSE_RETURN_IF_ERROR(CopyToFile(fs_, *object.source, path));
    }
    return OkStatus();
  }

 private:
  Filesystem& fs_;
  ForeignChoice choice_;
  ForeignOutputOptions options_;
  uint64_t shift_ = 0;
  uint64_t last_number_ = 0;  // in the source
  uint64_t spools_ = 0;
};

class NativeOutput final : public ChainOutput {
 public:
  explicit NativeOutput(Publisher& publisher) : publisher_(publisher) {}

  Status Add(const ChainVersion& version, const ViewSource* before, const Digest& /*before_digest*/,
             const ViewSource& view) override {
    PublishOptions options;
    options.metadata = version.metadata;
    options.anchor = before != nullptr && !(before->schema() == view.schema());
    PULSE_ASSIGN_OR_RETURN(const Published published, publisher_.Publish(view, options));
    if (published.manifest.target_digest == version.digest) return OkStatus();
    return Internal("version {} was published with another digest", version.number);
  }

 private:
  Publisher& publisher_;
};

}  // namespace

StatusOr<std::unique_ptr<ChainInput>> OpenNativeChain(Store& store, Filesystem& fs,
                                                      const kernels::KernelTable& kernels,
                                                      const ChainOptions& options) {
  PULSE_ASSIGN_OR_RETURN(ChainReader chain, ChainReader::Open(store, options));
  PULSE_ASSIGN_OR_RETURN(const HeadAt head, chain.Head());
  if (!head.head.version) {
    return NotFound("{}: run \"{}\" has no version yet", store.uri(), options.run);
  }
  PULSE_ASSIGN_OR_RETURN(std::vector<Manifest> walked,
                         chain.Walk(*head.head.version, [](const Manifest&) { return false; }));
  std::ranges::reverse(walked);
  const auto first = std::ranges::find_if(
      walked, [](const Manifest& manifest) { return manifest.has(PayloadRole::kAnchor); });
  walked.erase(walked.begin(), first);
  if (walked.empty()) {
    return NotFound("{}: run \"{}\": no kept version can be rebuilt", store.uri(), options.run);
  }
  return std::make_unique<NativeChain>(fs, kernels, std::move(chain), std::move(walked));
}

StatusOr<std::unique_ptr<ChainInput>> OpenForeignChain(Store& store, Filesystem& fs,
                                                       std::shared_ptr<const ForeignFormat> format,
                                                       const ForeignChainOptions& options) {
  std::unique_ptr<Checkpoint> base;
  if (!options.base.empty()) {
    PULSE_ASSIGN_OR_RETURN(base, Checkpoint::Open(fs, options.base));
  }
  PULSE_ASSIGN_OR_RETURN(const auto marks, format->List(store, options.prefix, 0));
  if (marks.empty()) {
    return NotFound("{}: there is no {} version below \"{}\"", store.uri(), format->name(),
                    options.prefix);
  }
  // From the base or the oldest full version, every version in turn.
  size_t begin = 0;
  const bool from_base = base != nullptr && format->first_number() == 0 && marks[0].number == 1;
  for (; !from_base && begin < marks.size(); ++begin) {
    PULSE_ASSIGN_OR_RETURN(const bool full, format->IsFull(store, marks[begin]));
    if (full) break;
  }
  if (begin == marks.size()) {
    return NotFound(
        "{}: no full {} version is there to start from; give the model that version 1 starts from "
        "(--base)",
        store.uri(), format->name());
  }
  std::vector<ForeignMark> steps;
  for (size_t i = begin; i < marks.size(); ++i) {
    const ForeignMark& mark = marks[i];
    if (!steps.empty() && mark.number == steps.back().number) continue;  // both delta and full
    if (!steps.empty() && mark.number > steps.back().number + 1) {
      PULSE_ASSIGN_OR_RETURN(const bool full, format->IsFull(store, mark));
      if (!full) {
        return NotFound("{}: {} version {} is not there, and {} starts from it", store.uri(),
                        format->name(), mark.number - 1, mark.key);
      }
    }
    steps.push_back(mark);
  }
  return std::make_unique<ForeignChain>(store, fs, std::move(format), options, std::move(base),
                                        std::move(steps));
}

std::unique_ptr<ChainOutput> MakeForeignOutput(Filesystem& fs, ForeignChoice choice,
                                               ForeignOutputOptions options) {
  return std::make_unique<ForeignOutput>(fs, std::move(choice), std::move(options));
}

std::unique_ptr<ChainOutput> MakeNativeOutput(Publisher& publisher) {
  return std::make_unique<NativeOutput>(publisher);
}

StatusOr<ConvertResult> ConvertChain(Filesystem& fs, ChainInput& input, ChainOutput& output,
                                     const ConvertOptions& options) {
  std::unique_ptr<Checkpoint> before;
  ChainVersion last;
  ConvertResult result;
  const auto remove_copy = [&](const std::string& path) {
    // The base of a chain is no copy of ours.
    return path.starts_with(options.work + "/") ? fs.Remove(path) : OkStatus();
  };
  uint64_t done = 0;
  uint64_t total = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    if (options.stop && options.stop()) return Cancelled("stopped on request");
    std::unique_ptr<ModelViewSource> before_view;
    if (before) before_view = std::make_unique<ModelViewSource>(before->view());
    const auto on_bytes = [&](uint64_t bytes) {
      if (options.progress) options.progress(done + bytes, total);
    };
    PULSE_ASSIGN_OR_RETURN(ChainVersion version,
                           input.Make(i, fmt::format("{}/copy-{}.safetensors", options.work, i),
                                      before_view.get(), last.digest, on_bytes));
    PULSE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open(fs, version.path));
    PULSE_RETURN_IF_ERROR(
        output.Add(version, before_view.get(), last.digest, ModelViewSource(checkpoint->view())));
    before_view.reset();
    before = std::move(checkpoint);
    PULSE_RETURN_IF_ERROR(remove_copy(last.path));
    if (i == 0) result.first = version.number;
    last = std::move(version);
    done += before->schema().bytes();
    total = before->schema().bytes() * input.size();
  }
  result.versions = input.size();
  result.last = last.number;
  result.digest = last.digest;
  result.view_bytes = before ? before->schema().bytes() : 0;
  before.reset();
  PULSE_RETURN_IF_ERROR(remove_copy(last.path));
  return result;
}

}  // namespace pulse
