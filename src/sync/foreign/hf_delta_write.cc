// Writing folders of versions.
#include <algorithm>

#include "sync/checkpoint.h"
#include "sync/foreign/changes.h"
#include "sync/foreign/checksum.h"
#include "sync/foreign/hf_delta.h"
#include "sync/foreign/step_files.h"
#include "sync/foreign/zstd_stream.h"
#include "sync/payload_file_source.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

// All in one file: it is written and read in pieces anyway.
constexpr std::string_view kShardName = "model-00001-of-00001.safetensors";

// What is gathered before it goes to zstd.
constexpr size_t kPieceBytes = size_t{64} << 10;

StatusOr<std::string> Folder(uint64_t number) {
  PULSE_ASSIGN_OR_RETURN(const std::string digits, SixDigits(number));
  return fmt::format("weight_v{}/", digits);
}

ForeignObject IndexObject(const std::string& folder, Json metadata,
                          const std::vector<TensorSpec>& specs) {
  Json weight_map = Json::object();
  for (const TensorSpec& spec : specs) weight_map[spec.name] = kShardName;
  const std::string text =
      CanonicalJson({{"metadata", std::move(metadata)}, {"weight_map", std::move(weight_map)}});
  const ByteView bytes = AsBytes(std::string_view(text));
  return {fmt::format("{}{}", folder, kHfIndexName),
          std::make_unique<OwnedSource>(Bytes(bytes.begin(), bytes.end()))};
}

// The tensors' file, if there are any, and then the index.
StatusOr<std::vector<ForeignObject>> FolderObjects(const std::string& folder, Json metadata,
                                                   const std::vector<TensorSpec>& specs,
                                                   const std::map<std::string, std::string>& texts,
                                                   std::shared_ptr<const ByteSource> data) {
  std::vector<ForeignObject> objects;
  if (!specs.empty()) {
    PULSE_ASSIGN_OR_RETURN(Bytes header, WriteSafetensorsHeader(specs, texts));
    objects.push_back({fmt::format("{}{}", folder, kShardName),
                       std::make_unique<HeadedSource>(std::move(header), std::move(data))});
  }
  objects.push_back(IndexObject(folder, std::move(metadata), specs));
  return objects;
}

// Gathers small pieces of a frame's content.
class Gatherer {
 public:
  explicit Gatherer(FrameWriter& frame) : frame_(frame) { bytes_.reserve(kPieceBytes); }

  template <typename T>
  void Add(T value) {
    AppendLittle(value, bytes_);
    if (bytes_.size() >= kPieceBytes && status_.ok()) Flush();
  }
  Status Finish() {
    if (status_.ok()) Flush();
    return status_;
  }

 private:
  void Flush() {
    status_ = frame_.Append(bytes_);
    bytes_.clear();
  }

  FrameWriter& frame_;
  Bytes bytes_;
  Status status_;
};

class EncodedDelta final : public EncodedForeignVersion {
 public:
  EncodedDelta(HfEncoding encoding, const ForeignEncodeOptions& options)
      : encoding_(encoding), blobs_(options.make_spool()), frame_(*blobs_) {}

  // Adds the change of a tensor, if there is one.
  Status Add(TensorPair& pair) {
    PULSE_ASSIGN_OR_RETURN(const bool differs, pair.Differs());
    if (!differs) return OkStatus();
    PULSE_ASSIGN_OR_RETURN(auto checksum, MakeChecksum(kXxh3Checksum));
    uint64_t count = 0;
    PULSE_RETURN_IF_ERROR(pair.ForEachCell([&](uint64_t, ByteView before, ByteView after) {
      checksum->Update(after);
      ForEachDifference<uint8_t>(before, after, [&](size_t) { ++count; });
      return OkStatus();
    }));
    const uint64_t begin = blobs_->size();
    PULSE_RETURN_IF_ERROR(encoding_ == HfEncoding::kXor ? WriteXor(pair)
                                                        : WriteOverwrite(pair, count));
    const std::string& name = pair.spec().name;
    specs_.push_back({name, DType::kU8, {blobs_->size() - begin}});
    checksums_[name] = checksum->Hex();
    return OkStatus();
  }

  Status Finish() { return blobs_->Finish(); }

  StatusOr<std::vector<ForeignObject>> Objects(const ForeignLabels& labels) const override {
    PULSE_ASSIGN_OR_RETURN(const std::string folder, Folder(labels.number));
    PULSE_ASSIGN_OR_RETURN(const std::string version, SixDigits(labels.number));
    PULSE_ASSIGN_OR_RETURN(const std::string base_version, SixDigits(labels.number - 1));
    Json metadata = {{"version", version},
                     {"base_version", base_version},
                     {"delta_encoding", encoding_ == HfEncoding::kXor ? kXorName : kOverwriteName},
                     {"compression_format", "zstd"},
                     {"checksum_format", kXxh3Checksum}};
    if (labels.base_digest) metadata[kHfBaseDigestKey] = labels.base_digest->Hex();
    if (labels.target_digest) metadata[kHfTargetDigestKey] = labels.target_digest->Hex();
    return FolderObjects(folder, std::move(metadata), specs_, checksums_, blobs_);
  }

 private:
  Status WriteXor(TensorPair& pair) {
    frame_.Start(pair.spec().bytes());
    Bytes mixed;
    const Status written =
        pair.ForEachCell([&](uint64_t, ByteView before, ByteView after) -> Status {
          for (size_t begin = 0; begin < after.size(); begin += kPieceBytes) {
            mixed.resize(std::min(kPieceBytes, after.size() - begin));
            for (size_t i = 0; i < mixed.size(); ++i)
              mixed[i] = before[begin + i] ^ after[begin + i];
            PULSE_RETURN_IF_ERROR(frame_.Append(mixed));
          }
          return OkStatus();
        });
    PULSE_RETURN_IF_ERROR(written);
    return frame_.Finish();
  }

  Status WriteOverwrite(TensorPair& pair, uint64_t count) {
    frame_.Start(sizeof(uint32_t) + count * (sizeof(uint32_t) + 1));
    Gatherer gatherer(frame_);
    gatherer.Add(static_cast<uint32_t>(count));
    PULSE_RETURN_IF_ERROR(pair.ForEachCell([&](uint64_t offset, ByteView before, ByteView after) {
      ForEachDifference<uint8_t>(
          before, after, [&](size_t i) { gatherer.Add(static_cast<uint32_t>(offset + i)); });
      return OkStatus();
    }));
    PULSE_RETURN_IF_ERROR(pair.ForEachCell([&](uint64_t, ByteView before, ByteView after) {
      ForEachDifference<uint8_t>(before, after, [&](size_t i) { gatherer.Add(after[i]); });
      return OkStatus();
    }));
    PULSE_RETURN_IF_ERROR(gatherer.Finish());
    return frame_.Finish();
  }

  HfEncoding encoding_;
  std::shared_ptr<Spool> blobs_;
  FrameWriter frame_;
  std::vector<TensorSpec> specs_;  // of the blobs
  std::map<std::string, std::string> checksums_;
};

class EncodedFull final : public EncodedForeignVersion {
 public:
  explicit EncodedFull(const ViewSource& view) : view_(view) {}

  StatusOr<std::vector<ForeignObject>> Objects(const ForeignLabels& labels) const override {
    PULSE_ASSIGN_OR_RETURN(const std::string folder, Folder(labels.number));
    PULSE_ASSIGN_OR_RETURN(const std::string version, SixDigits(labels.number));
    const ModelSchema& schema = view_.schema();
    std::vector<TensorSpec> specs;
    std::vector<TensorRange> runs;
    for (const size_t i : SafetensorsOrder(schema.tensors())) {
      specs.push_back(schema.tensors()[i]);
      runs.push_back({i, 0, schema.tensors()[i].bytes()});
    }
    Json metadata = {{"version", version}, {"total_size", schema.bytes()}};
    if (labels.target_digest) metadata[kHfTargetDigestKey] = labels.target_digest->Hex();
    return FolderObjects(folder, std::move(metadata), specs,
                         WithAliases({{"format", "pt"}}, schema),
                         std::make_shared<RunsSource>(view_, std::move(runs)));
  }

 private:
  const ViewSource& view_;
};

}  // namespace

StatusOr<std::unique_ptr<EncodedForeignVersion>> EncodeHfDelta(
    HfEncoding encoding, const ViewSource& before, const ViewSource& after,
    const ForeignEncodeOptions& options) {
  auto delta = std::make_unique<EncodedDelta>(encoding, options);
  uint64_t done = 0;
  const auto& tensors = after.schema().tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorPair pair(before, after, i);
    PULSE_RETURN_IF_ERROR(delta->Add(pair));
    done += tensors[i].bytes();
    if (options.progress) options.progress(done);
  }
  PULSE_RETURN_IF_ERROR(delta->Finish());
  return std::unique_ptr<EncodedForeignVersion>(std::move(delta));
}

std::unique_ptr<EncodedForeignVersion> EncodeHfFull(const ViewSource& after) {
  return std::make_unique<EncodedFull>(after);
}

}  // namespace pulse
