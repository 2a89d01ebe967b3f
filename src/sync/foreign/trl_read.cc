// Reading TRL's files.
#include <algorithm>
#include <set>

#include "sync/checkpoint.h"
#include "sync/foreign/copy_patch.h"
#include "sync/foreign/trl.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

// Plain positions, or the gaps between them.
enum class Positions { kRaw, kGaps16, kGaps32 };

// The positions of one tensor's changes, ascending.
class PositionReader {
 public:
  PositionReader(EntryReader entry, Positions kind, uint64_t count)
      : entry_(std::move(entry)), kind_(kind), left_(count) {}

  // Moves to the next position; false at the end. kDataLoss unless it lies behind the one before
  // and below `elements`.
  StatusOr<bool> Advance(uint64_t elements) {
    if (left_ == 0) return false;
    --left_;
    uint64_t position = 0;
    switch (kind_) {
      case Positions::kRaw: {
        PULSE_ASSIGN_OR_RETURN(const auto raw, entry_.Number<int32_t>());
        if (raw < 0) return DataLoss("position {} is negative", raw);
        position = static_cast<uint64_t>(raw);
        if (position < next_) return DataLoss("position {} is not behind the one before", raw);
        break;
      }
      case Positions::kGaps16: {
        PULSE_ASSIGN_OR_RETURN(const auto gap, entry_.Number<uint16_t>());
        position = next_ + gap;
        break;
      }
      case Positions::kGaps32: {
        PULSE_ASSIGN_OR_RETURN(const auto gap, entry_.Number<uint32_t>());
        position = next_ + gap;
        break;
      }
    }
    if (position >= elements) {
      return DataLoss("position {} lies outside of {} elements", position, elements);
    }
    position_ = position;
    next_ = position + 1;
    return true;
  }

  uint64_t position() const { return position_; }

 private:
  EntryReader entry_;
  Positions kind_;
  uint64_t left_;
  uint64_t position_ = 0;
  uint64_t next_ = 0;  // the lowest that may come
};

class SparsePatch final : public TensorPatch {
 public:
  static StatusOr<std::unique_ptr<TensorPatch>> Make(PositionReader positions, EntryReader values,
                                                     const TensorSpec& spec, std::string where) {
    std::unique_ptr<SparsePatch> patch(new SparsePatch(std::move(positions), std::move(values),
                                                       spec.elements(), std::move(where)));
    PULSE_RETURN_IF_ERROR(patch->Advance());
    return patch;
  }

  Status Apply(ByteSpan bytes) override {
    const uint64_t end = at_ + bytes.size() / sizeof(uint16_t);
    while (more_ && positions_.position() < end) {
      auto value = values_.Number<uint16_t>();
      PULSE_RETURN_IF_ERROR(Annotate(value.status(), where_));
      std::memcpy(bytes.data() + (positions_.position() - at_) * sizeof(uint16_t), &*value,
                  sizeof(uint16_t));
      PULSE_RETURN_IF_ERROR(Advance());
    }
    at_ = end;
    return OkStatus();
  }

  // Advance() has refused what would be left over.
  Status Finish() override { return OkStatus(); }

 private:
  SparsePatch(PositionReader positions, EntryReader values, uint64_t elements, std::string where)
      : positions_(std::move(positions)),
        values_(std::move(values)),
        elements_(elements),
        where_(std::move(where)) {}

  Status Advance() {
    auto more = positions_.Advance(elements_);
    PULSE_RETURN_IF_ERROR(Annotate(more.status(), where_));
    more_ = *more;
    return OkStatus();
  }

  PositionReader positions_;
  EntryReader values_;
  uint64_t elements_;
  std::string where_;
  uint64_t at_ = 0;  // element that the next piece begins with
  bool more_ = false;
};

std::string ValueOf(const TensorFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? std::string() : found->second;
}

StatusOr<std::optional<Digest>> DigestIn(const TensorFile& file, const char* key) {
  const std::string text = ValueOf(file, key);
  if (text.empty()) return std::optional<Digest>();
  const auto digest = Digest::FromHex(text);
  if (!digest.ok()) return DataLoss("metadata \"{}\" is no digest", key);
  return std::optional<Digest>(*digest);
}

StatusOr<std::vector<std::string>> NamesIn(const TensorFile& file, const char* key) {
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(ValueOf(file, key), key));
  std::vector<std::string> names;
  if (!json.is_array()) return DataLoss("metadata \"{}\" is not a list", key);
  for (const Json& name : json) {
    if (!name.is_string()) return DataLoss("metadata \"{}\" is not a list of names", key);
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Of both kinds of file.
class TrlVersion : public ForeignVersion {
 public:
  TrlVersion(std::shared_ptr<const TensorFile> file, const ForeignMark& mark)
      : file_(std::move(file)), mark_(mark) {}

  uint64_t number() const override { return mark_.number; }
  bool full() const override { return *mark_.full; }
  uint64_t file_bytes() const override { return file_->file_bytes(); }
  std::optional<Digest> base_digest() const override { return base_digest_; }
  std::optional<Digest> target_digest() const override { return target_digest_; }

  virtual Status Read(const TrlLayout& layout) = 0;

 protected:
  Status ReadCommon() {
    if (ValueOf(*file_, "format") != "sparse_weight_patch" || ValueOf(*file_, "version") != "1") {
      return DataLoss("its metadata does not say format=sparse_weight_patch and version=1");
    }
    if (ValueOf(*file_, "sparse") != (full() ? "False" : "True")) {
      return DataLoss("its metadata must say sparse={} here", full() ? "False" : "True");
    }
    PULSE_ASSIGN_OR_RETURN(base_digest_, DigestIn(*file_, kTrlBaseDigestKey));
    PULSE_ASSIGN_OR_RETURN(target_digest_, DigestIn(*file_, kTrlTargetDigestKey));
    return OkStatus();
  }

  std::shared_ptr<const TensorFile> file_;
  ForeignMark mark_;
  std::optional<Digest> base_digest_, target_digest_;
};

class TrlAnchor final : public TrlVersion {
 public:
  using TrlVersion::TrlVersion;

  Status Read(const TrlLayout& /*layout*/) override {
    PULSE_RETURN_IF_ERROR(ReadCommon());
    for (const SafetensorsEntry& entry : file_->entries()) {
      if (entry.spec.dtype != DType::kBF16) {
        return DataLoss("tensor \"{}\" is {}, expected BF16 in an anchor", entry.spec.name,
                        NameOf(entry.spec.dtype));
      }
    }
    auto metadata = file_->metadata();
    PULSE_ASSIGN_OR_RETURN(aliases_, TakeAliases(metadata));
    if (metadata.contains(kTrlLeftOutKey)) {
      PULSE_ASSIGN_OR_RETURN(left_out_, NamesIn(*file_, kTrlLeftOutKey));
    }
    return OkStatus();
  }

  StatusOr<ModelSchema> Schema(const ModelSchema* base) const override {
    for (const std::string& name : left_out_) {
      if (base != nullptr && base->Find(name).ok()) continue;
      return FailedPrecondition(
          "{}: tensor \"{}\" is not in it, since it is not BF16: give a model that has it (--base)",
          mark_.key, name);
    }
    std::vector<TensorSpec> specs;
    for (const SafetensorsEntry& entry : file_->entries()) specs.push_back(entry.spec);
    auto aliases = aliases_;
    if (base != nullptr) {
      for (const TensorSpec& spec : base->tensors()) {
        if (file_->Find(spec.name) == nullptr) specs.push_back(spec);
      }
      aliases.insert(base->aliases().begin(), base->aliases().end());
      std::erase_if(aliases,
                    [&](const auto& alias) { return file_->Find(alias.first) != nullptr; });
    }
    auto schema = ModelSchema::Make(std::move(specs), std::move(aliases));
    if (schema.ok()) return schema;
    return DataLoss("{}: {}", mark_.key, ToStd(schema.status().message()));
  }

  StatusOr<std::unique_ptr<TensorPatch>> Patch(const TensorSpec& spec) const override {
    const SafetensorsEntry* entry = file_->Find(spec.name);
    if (entry == nullptr) return nullptr;
    return std::make_unique<CopyPatch>(EntryReader(file_, *entry));
  }

 private:
  std::map<std::string, std::string> aliases_;
  std::vector<std::string> left_out_;
};

class TrlDelta final : public TrlVersion {
 public:
  using TrlVersion::TrlVersion;

  Status Read(const TrlLayout& layout) override {
    PULSE_RETURN_IF_ERROR(ReadCommon());
    bool gaps = false;
    if (!layout.lists_changed_params) {
      const std::string encoding = ValueOf(*file_, "encoding");
      if (encoding == "nvcomp_cascaded") {
        return Unimplemented(
            "encoding nvcomp_cascaded can only be read on a GPU with nvCOMP: let its writer use "
            "raw or gap_delta");
      }
      if (encoding != "raw" && encoding != "gap_delta") {
        return Unimplemented("encoding \"{}\" is not known: raw and gap_delta are", encoding);
      }
      gaps = encoding == "gap_delta";
    }
    PULSE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ChangedNames(layout));
    for (const std::string& name : names) {
      PULSE_RETURN_IF_ERROR(AddChange(layout, name, gaps));
    }
    if (file_->entries().size() != 2 * changes_.size()) {
      return DataLoss("{} tensors for {} changes, expected positions and values of each",
                      file_->entries().size(), changes_.size());
    }
    return OkStatus();
  }

  StatusOr<ModelSchema> Schema(const ModelSchema* base) const override {
    if (base == nullptr) {
      return FailedPrecondition("{}: a delta without the version before it", mark_.key);
    }
    for (const auto& [name, change] : changes_) {
      const auto at = base->Find(name);
      if (!at.ok()) {
        return FailedPrecondition("{}: tensor \"{}\" changes, but the version before has none",
                                  mark_.key, name);
      }
      const TensorSpec& spec = base->tensors()[*at];
      if (spec.dtype != DType::kBF16) {
        return FailedPrecondition("{}: tensor \"{}\" gets BF16 values, but is {}", mark_.key, name,
                                  NameOf(spec.dtype));
      }
      if (change.count > spec.elements()) {
        return DataLoss("{}: tensor \"{}\" has {} changes, but {} elements", mark_.key, name,
                        change.count, spec.elements());
      }
    }
    return *base;
  }

  StatusOr<std::unique_ptr<TensorPatch>> Patch(const TensorSpec& spec) const override {
    const auto found = changes_.find(spec.name);
    if (found == changes_.end()) return nullptr;
    const Change& change = found->second;
    return SparsePatch::Make(
        PositionReader(EntryReader(file_, *change.positions), change.kind, change.count),
        EntryReader(file_, *change.values), spec,
        fmt::format("{}: tensor \"{}\"", mark_.key, spec.name));
  }

 private:
  struct Change {
    const SafetensorsEntry* positions = nullptr;
    const SafetensorsEntry* values = nullptr;
    Positions kind = Positions::kRaw;
    uint64_t count = 0;
  };

  StatusOr<std::vector<std::string>> ChangedNames(const TrlLayout& layout) const {
    if (layout.lists_changed_params) return NamesIn(*file_, "changed_params");
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : file_->entries()) {
      const std::string& key = entry.spec.name;
      if (!key.ends_with(layout.values_suffix)) continue;
      names.push_back(key.substr(0, key.size() - layout.values_suffix.size()));
    }
    return names;
  }

  Status AddChange(const TrlLayout& layout, const std::string& name, bool gaps) {
    Change change;
    change.positions = file_->Find(fmt::format("{}{}", name, layout.positions_suffix));
    change.values = file_->Find(fmt::format("{}{}", name, layout.values_suffix));
    if (change.positions == nullptr || change.values == nullptr) {
      return DataLoss("tensor \"{}\" changes, but {}{} is missing", name, name,
                      change.positions == nullptr ? layout.positions_suffix : layout.values_suffix);
    }
    const TensorSpec& positions = change.positions->spec;
    const TensorSpec& values = change.values->spec;
    const bool flat = positions.shape.size() == 1 && values.shape.size() == 1;
    const bool typed = values.dtype == DType::kBF16 &&
                       (gaps ? positions.dtype == DType::kU16 || positions.dtype == DType::kU32
                             : positions.dtype == DType::kI32);
    if (!flat || !typed || positions.elements() != values.elements()) {
      return DataLoss(
          "tensor \"{}\": {} positions as {} and {} values as {}, expected as many, as {} and BF16",
          name, positions.elements(), NameOf(positions.dtype), values.elements(),
          NameOf(values.dtype), gaps ? "U16 or U32" : "I32");
    }
    change.kind = !gaps                            ? Positions::kRaw
                  : positions.dtype == DType::kU16 ? Positions::kGaps16
                                                   : Positions::kGaps32;
    change.count = values.elements();
    if (!changes_.emplace(name, change).second) {
      return DataLoss("tensor \"{}\" is named twice", name);
    }
    return OkStatus();
  }

  std::map<std::string, Change> changes_;
};

}  // namespace

StatusOr<std::unique_ptr<const ForeignVersion>> OpenTrlVersion(
    const TrlLayout& layout, std::shared_ptr<const TensorFile> file, const ForeignMark& mark) {
  std::unique_ptr<TrlVersion> version;
  if (*mark.full) {
    version = std::make_unique<TrlAnchor>(std::move(file), mark);
  } else {
    version = std::make_unique<TrlDelta>(std::move(file), mark);
  }
  PULSE_RETURN_IF_ERROR(version->Read(layout));
  return std::unique_ptr<const ForeignVersion>(std::move(version));
}

}  // namespace pulse
