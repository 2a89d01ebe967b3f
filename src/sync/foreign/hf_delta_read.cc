// Reading folders of versions.
#include <algorithm>
#include <set>

#include "sync/checkpoint.h"
#include "sync/foreign/checksum.h"
#include "sync/foreign/copy_patch.h"
#include "sync/foreign/hf_delta.h"
#include "sync/foreign/step_files.h"
#include "sync/foreign/tensor_file.h"
#include "sync/foreign/zstd_stream.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

// Decoded at a time: small beside a decoder's window.
constexpr size_t kPieceBytes = size_t{64} << 10;

// Where a tensor lies.
struct Place {
  std::shared_ptr<const TensorFile> file;
  const SafetensorsEntry* entry = nullptr;

  EntryReader reader() const { return EntryReader(file, *entry); }
};

// Compares what a change makes with the checksum that its writer had.
class CheckedPatch : public TensorPatch {
 public:
  CheckedPatch(std::string where, std::unique_ptr<Checksum> checksum, std::string expected)
      : where_(std::move(where)), checksum_(std::move(checksum)), expected_(std::move(expected)) {}

  Status Apply(ByteSpan bytes) final {
    PULSE_RETURN_IF_ERROR(Annotate(Change(bytes), where_));
    checksum_->Update(bytes);
    return OkStatus();
  }

  Status Finish() final {
    PULSE_RETURN_IF_ERROR(Annotate(End(), where_));
    if (checksum_->Hex() == expected_) return OkStatus();
    return DataLoss(
        "{}: its checksum is {}, but its writer had {}: the change is damaged, or is for another "
        "base",
        where_, checksum_->Hex(), expected_);
  }

 private:
  virtual Status Change(ByteSpan bytes) = 0;
  virtual Status End() = 0;

  std::string where_;
  std::unique_ptr<Checksum> checksum_;
  std::string expected_;
};

class XorPatch final : public CheckedPatch {
 public:
  XorPatch(std::string where, std::unique_ptr<Checksum> checksum, std::string expected,
           const Place& place, uint64_t decoder_bytes)
      : CheckedPatch(std::move(where), std::move(checksum), std::move(expected)),
        frame_(place.reader(), decoder_bytes),
        piece_(kPieceBytes) {}

 private:
  Status Change(ByteSpan bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const ByteSpan part = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      PULSE_RETURN_IF_ERROR(frame_.Fill(ByteSpan(piece_).first(part.size())));
      for (size_t i = 0; i < part.size(); ++i) part[i] ^= piece_[i];
    }
    return OkStatus();
  }
  Status End() override { return frame_.Finish(); }

  FrameReader frame_;
  Bytes piece_;
};

// A part of a frame as a row of numbers.
template <typename T>
class NumberReader {
 public:
  NumberReader(EntryReader entry, uint64_t decoder_bytes)
      : frame_(std::move(entry), decoder_bytes) {}

  FrameReader& frame() { return frame_; }
  void Start(uint64_t count) { left_ = count; }

  // The next of the row. kDataLoss as of the frame.
  StatusOr<T> Next() {
    if (at_ == numbers_.size()) {
      numbers_.resize(std::min<uint64_t>(left_, kPieceBytes / sizeof(T)));
      at_ = 0;
      left_ -= numbers_.size();
      PULSE_RETURN_IF_ERROR(
          frame_.Fill({reinterpret_cast<uint8_t*>(numbers_.data()), numbers_.size() * sizeof(T)}));
    }
    return numbers_[at_++];
  }

 private:
  FrameReader frame_;
  uint64_t left_ = 0;  // not in numbers_ yet
  std::vector<T> numbers_;
  size_t at_ = 0;
};

// The positions all come before the values, so that the frame is decoded twice, side by side: that
// bounds the memory, whatever the tensor's size.
class OverwritePatch final : public CheckedPatch {
 public:
  OverwritePatch(std::string where, std::unique_ptr<Checksum> checksum, std::string expected,
                 const Place& place, uint64_t decoder_bytes, uint64_t tensor_bytes)
      : CheckedPatch(std::move(where), std::move(checksum), std::move(expected)),
        positions_(place.reader(), decoder_bytes / 2),
        values_(place.reader(), decoder_bytes / 2),
        tensor_bytes_(tensor_bytes) {}

  Status Start() {
    uint32_t count = 0;
    const ByteSpan count_bytes(reinterpret_cast<uint8_t*>(&count), sizeof(count));
    PULSE_RETURN_IF_ERROR(positions_.frame().Fill(count_bytes));
    PULSE_RETURN_IF_ERROR(values_.frame().Fill(count_bytes));
    if (count > tensor_bytes_) {
      return DataLoss("{} bytes change, but it has {}", count, tensor_bytes_);
    }
    Bytes skipped(std::min<uint64_t>(kPieceBytes, uint64_t{count} * sizeof(uint32_t)));
    for (uint64_t left = uint64_t{count} * sizeof(uint32_t); left > 0;) {
      const size_t size = std::min<uint64_t>(left, skipped.size());
      PULSE_RETURN_IF_ERROR(values_.frame().Fill(ByteSpan(skipped).first(size)));
      left -= size;
    }
    positions_.Start(count);
    values_.Start(count);
    left_ = count;
    return Advance();
  }

 private:
  Status Change(ByteSpan bytes) override {
    while (more_ && position_ < at_ + bytes.size()) {
      PULSE_ASSIGN_OR_RETURN(bytes[position_ - at_], values_.Next());
      PULSE_RETURN_IF_ERROR(Advance());
    }
    at_ += bytes.size();
    return OkStatus();
  }

  Status End() override { return values_.frame().Finish(); }

  Status Advance() {
    more_ = left_ > 0;
    if (!more_) return OkStatus();
    --left_;
    PULSE_ASSIGN_OR_RETURN(const uint32_t position, positions_.Next());
    if (position < next_) return DataLoss("position {} is not behind the one before", position);
    if (position >= tensor_bytes_) {
      return DataLoss("position {} lies outside of {} bytes", position, tensor_bytes_);
    }
    position_ = position;
    next_ = position_ + 1;
    return OkStatus();
  }

  NumberReader<uint32_t> positions_;
  NumberReader<uint8_t> values_;
  uint64_t tensor_bytes_;
  uint64_t left_ = 0;      // positions not read yet
  uint64_t position_ = 0;  // of the next change, if more_
  uint64_t next_ = 0;      // the lowest position that may come
  uint64_t at_ = 0;        // that the next piece begins with
  bool more_ = false;
};

// Of both kinds.
class HfVersion : public ForeignVersion {
 public:
  uint64_t number() const override { return mark_.number; }
  uint64_t file_bytes() const override { return file_bytes_; }
  std::optional<Digest> base_digest() const override { return base_digest_; }
  std::optional<Digest> target_digest() const override { return target_digest_; }

 protected:
  explicit HfVersion(const ForeignMark& mark) : mark_(mark) {}

  Status AddFile(Store& store, const std::string& name) {
    const std::string key = mark_.key + name;
    // The index is a stranger's: what no store could hold is its damage, not our caller's.
    if (!CheckKey(key).ok())
      return DataLoss("the index names \"{}\", which no store can hold", name);
    const auto info = store.Stat(key);
    if (absl::IsNotFound(info.status())) return DataLoss("file \"{}\" is missing", name);
    PULSE_RETURN_IF_ERROR(info.status());
    PULSE_ASSIGN_OR_RETURN(
        auto file, TensorFile::Open(std::make_shared<ObjectSource>(store, key, info->bytes), name));
    for (const SafetensorsEntry& entry : file->entries()) {
      if (!places_.emplace(entry.spec.name, Place{file, &entry}).second) {
        return DataLoss("tensor \"{}\" is in two files", entry.spec.name);
      }
    }
    file_bytes_ += info->bytes;
    files_.push_back(std::move(file));
    return OkStatus();
  }

  Status AddFilesOf(Store& store, const std::map<std::string, std::string>& weight_map) {
    std::set<std::string> names;
    for (const auto& [tensor, file] : weight_map) names.insert(file);
    for (const std::string& name : names) PULSE_RETURN_IF_ERROR(AddFile(store, name));
    for (const auto& [tensor, file] : weight_map) {
      const auto place = places_.find(tensor);
      if (place == places_.end() || place->second.file->where() != file) {
        return DataLoss("tensor \"{}\" is not in \"{}\", where the index says it is", tensor, file);
      }
    }
    for (const auto& [tensor, place] : places_) {
      if (!weight_map.contains(tensor)) {
        return DataLoss("tensor \"{}\" of \"{}\" is not in the index", tensor, place.file->where());
      }
    }
    return OkStatus();
  }

  Status ReadDigests(const Json& metadata) {
    for (const auto& [key, digest] : {std::pair(kHfBaseDigestKey, &base_digest_),
                                      std::pair(kHfTargetDigestKey, &target_digest_)}) {
      if (!metadata.contains(key)) continue;
      const Json& value = metadata[key];
      const auto read = value.is_string() ? Digest::FromHex(value.get<std::string>())
                                          : StatusOr<Digest>(DataLoss("not text"));
      if (!read.ok()) return DataLoss("\"{}\" of the index is no digest", key);
      *digest = *read;
    }
    return OkStatus();
  }

  ForeignMark mark_;
  std::vector<std::shared_ptr<const TensorFile>> files_;
  std::map<std::string, Place> places_;
  uint64_t file_bytes_ = 0;
  std::optional<Digest> base_digest_, target_digest_;
};

class HfFull final : public HfVersion {
 public:
  // weight_map: null for a single file without an index.
  static StatusOr<std::unique_ptr<const ForeignVersion>> Open(
      Store& store, const ForeignMark& mark, const std::map<std::string, std::string>* weight_map,
      const Json& metadata) {
    std::unique_ptr<HfFull> version(new HfFull(mark));
    PULSE_RETURN_IF_ERROR(weight_map != nullptr
                              ? version->AddFilesOf(store, *weight_map)
                              : version->AddFile(store, std::string(kHfSingleName)));
    PULSE_RETURN_IF_ERROR(version->ReadDigests(metadata));
    std::vector<TensorSpec> specs;
    std::map<std::string, std::string> aliases;
    for (const auto& file : version->files_) {
      for (const SafetensorsEntry& entry : file->entries()) specs.push_back(entry.spec);
      auto file_metadata = file->metadata();
      PULSE_ASSIGN_OR_RETURN(const auto more, TakeAliases(file_metadata));
      aliases.insert(more.begin(), more.end());
    }
    auto schema = ModelSchema::Make(std::move(specs), std::move(aliases));
    if (!schema.ok()) return DataLoss("{}", ToStd(schema.status().message()));
    version->schema_ = *std::move(schema);
    return std::unique_ptr<const ForeignVersion>(std::move(version));
  }

  bool full() const override { return true; }
  StatusOr<ModelSchema> Schema(const ModelSchema* /*base*/) const override { return schema_; }
  StatusOr<std::unique_ptr<TensorPatch>> Patch(const TensorSpec& spec) const override {
    return std::make_unique<CopyPatch>(places_.at(spec.name).reader());
  }

 private:
  using HfVersion::HfVersion;

  ModelSchema schema_;
};

class HfDelta final : public HfVersion {
 public:
  static StatusOr<std::unique_ptr<const ForeignVersion>> Open(
      Store& store, const ForeignMark& mark, const std::map<std::string, std::string>& weight_map,
      const Json& metadata, const ForeignReadOptions& options) {
    std::unique_ptr<HfDelta> version(new HfDelta(mark));
    version->decoder_bytes_ = options.decoder_bytes;
    PULSE_RETURN_IF_ERROR(version->ReadMetadata(metadata));
    PULSE_RETURN_IF_ERROR(version->AddFilesOf(store, weight_map));
    PULSE_RETURN_IF_ERROR(version->ReadDigests(metadata));
    for (const auto& [tensor, place] : version->places_) {
      const TensorSpec& blob = place.entry->spec;
      if (blob.dtype != DType::kU8 || blob.shape.size() != 1) {
        return DataLoss("the change of tensor \"{}\" is not a row of U8", tensor);
      }
      if (!place.file->metadata().contains(tensor)) {
        return DataLoss("tensor \"{}\" has no checksum", tensor);
      }
    }
    return std::unique_ptr<const ForeignVersion>(std::move(version));
  }

  bool full() const override { return false; }

  StatusOr<ModelSchema> Schema(const ModelSchema* base) const override {
    if (base == nullptr) {
      return FailedPrecondition(
          "{}: a delta without the version before it{}", mark_.key,
          mark_.number == 1 ? ": give the model that it starts from (--base)" : "");
    }
    for (const auto& [tensor, place] : places_) {
      if (!base->Find(tensor).ok()) {
        return FailedPrecondition("{}: tensor \"{}\" changes, but the version before has none",
                                  mark_.key, tensor);
      }
    }
    return *base;
  }

  StatusOr<std::unique_ptr<TensorPatch>> Patch(const TensorSpec& spec) const override {
    const auto found = places_.find(spec.name);
    if (found == places_.end()) return nullptr;
    const Place& place = found->second;
    std::string where = fmt::format("{}: tensor \"{}\"", mark_.key, spec.name);
    PULSE_ASSIGN_OR_RETURN(auto checksum, MakeChecksum(checksum_));
    std::string expected = place.file->metadata().at(spec.name);
    if (encoding_ == HfEncoding::kXor) {
      return std::make_unique<XorPatch>(std::move(where), std::move(checksum), std::move(expected),
                                        place, decoder_bytes_);
    }
    auto patch = std::make_unique<OverwritePatch>(where, std::move(checksum), std::move(expected),
                                                  place, decoder_bytes_, spec.bytes());
    PULSE_RETURN_IF_ERROR(Annotate(patch->Start(), where));
    return patch;
  }

 private:
  using HfVersion::HfVersion;

  Status ReadMetadata(const Json& metadata) {
    const auto text = [&](const char* key) {
      const auto found = metadata.find(key);
      return found != metadata.end() && found->is_string() ? found->get<std::string>() : "";
    };
    const std::string encoding = text("delta_encoding");
    if (encoding != kXorName && encoding != kOverwriteName) {
      return Unimplemented("delta_encoding \"{}\" is not known: overwrite and xor are", encoding);
    }
    encoding_ = encoding == kXorName ? HfEncoding::kXor : HfEncoding::kOverwrite;
    if (text("compression_format") != "zstd") {
      return Unimplemented("compression_format \"{}\" is not known: zstd is",
                           text("compression_format"));
    }
    checksum_ = text("checksum_format");
    PULSE_RETURN_IF_ERROR(MakeChecksum(checksum_).status());
    const auto version = FromSixDigits(text("version"));
    const auto base = FromSixDigits(text("base_version"));
    if (version != mark_.number) {
      return DataLoss("the index says that it is version \"{}\"", text("version"));
    }
    if (!base || *base + 1 != mark_.number) {
      return Unimplemented("it changes version \"{}\", expected {}", text("base_version"),
                           mark_.number - 1);
    }
    return OkStatus();
  }

  HfEncoding encoding_ = HfEncoding::kOverwrite;
  std::string checksum_;
  uint64_t decoder_bytes_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<const ForeignVersion>> OpenHfVersion(Store& store, const ForeignMark& mark,
                                                              const ForeignReadOptions& options) {
  const auto index =
      store.Get(fmt::format("{}{}", mark.key, kHfIndexName), kMaxSafetensorsHeaderBytes);
  if (absl::IsNotFound(index.status())) {
    const auto single = store.Stat(fmt::format("{}{}", mark.key, kHfSingleName));
    if (absl::IsNotFound(single.status())) {
      return NotFound("neither {} nor {} is there", kHfIndexName, kHfSingleName);
    }
    return HfFull::Open(store, mark, nullptr, Json::object());
  }
  PULSE_RETURN_IF_ERROR(index.status());
  PULSE_ASSIGN_OR_RETURN(const auto weight_map,
                         ParseCheckpointIndex(index->bytes, std::string(kHfIndexName)));
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(AsText(index->bytes), kHfIndexName));
  const auto found = json.find("metadata");
  const Json metadata = found == json.end() ? Json::object() : *found;
  if (!metadata.is_object()) return DataLoss("{}: \"metadata\" is not an object", kHfIndexName);
  if (!metadata.contains("delta_encoding")) {
    return HfFull::Open(store, mark, &weight_map, metadata);
  }
  return HfDelta::Open(store, mark, weight_map, metadata, options);
}

}  // namespace pulse
