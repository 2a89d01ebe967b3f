#include "sync/payload_metadata.h"

#include <algorithm>

#include "sync/checkpoint.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

constexpr std::string_view kFormat = "pulse-payload-1";
constexpr std::string_view kOurs = "pulse.";
constexpr std::string_view kWhat = "payload file";

constexpr char kRoleKey[] = "pulse.role";
constexpr char kRunKey[] = "pulse.run";
constexpr char kBaseKey[] = "pulse.base";
constexpr char kTargetKey[] = "pulse.target";
constexpr char kBaseDigestKey[] = "pulse.base_digest";
constexpr char kTargetDigestKey[] = "pulse.target_digest";
constexpr char kTensorsKey[] = "pulse.tensors";

constexpr RangeCodec kCodecs[] = {RangeCodec::kSame, RangeCodec::kRaw, RangeCodec::kFast,
                                  RangeCodec::kSmall};

// One row per tensor: [name, dtype, shape, digest, ranges], a range being [begin, end, codec,
// changed]; an anchor has neither digests nor codecs.
std::string WriteTable(const ModelSchema& schema, const PayloadInfo& info,
                       const std::vector<PayloadRange>& ranges) {
  const bool delta = info.role == PayloadRole::kDelta;
  Json table = Json::array();
  for (size_t tensor = 0, next = 0; tensor < schema.tensors().size(); ++tensor) {
    const TensorSpec& spec = schema.tensors()[tensor];
    Json rows = Json::array();
    for (; next < ranges.size() && ranges[next].range.tensor == tensor; ++next) {
      const PayloadRange& range = ranges[next];
      Json row = Json::array({range.range.begin, range.range.end});
      if (delta) row.push_back(NameOf(range.codec));
      if (delta) row.push_back(range.changed);
      rows.push_back(std::move(row));
    }
    Json entry = Json::array({spec.name, NameOf(spec.dtype), spec.shape});
    if (delta) entry.push_back(info.tensor_digests[tensor].Hex());
    entry.push_back(std::move(rows));
    table.push_back(std::move(entry));
  }
  return CanonicalJson(table);
}

class MetadataReader {
 public:
  explicit MetadataReader(const SafetensorsHeader& header)
      : header_(header), metadata_(header.metadata) {}

  StatusOr<PayloadMetadata> Read() {
    const std::string format = Take(kPayloadFormatKey);
    if (format != kFormat) {
      if (format.empty())
        return DataLoss("{}: no \"{}\": a plain safetensors file?", kWhat, kPayloadFormatKey);
      return Unimplemented("{}: format \"{}\", this program reads \"{}\"", kWhat, format, kFormat);
    }
    PayloadInfo& info = result_.info;
    const std::string role = Take(kRoleKey);
    info.role = role == NameOf(PayloadRole::kAnchor) ? PayloadRole::kAnchor : PayloadRole::kDelta;
    if (role != NameOf(info.role))
      return DataLoss("{}: {} is \"{}\", neither delta nor anchor", kWhat, kRoleKey, role);
    info.run = Take(kRunKey);
    info.base = Take(kBaseKey);
    info.target = Take(kTargetKey);
    PULSE_RETURN_IF_ERROR(TakeDigest(kTargetDigestKey, info.target_digest));
    if (info.role == PayloadRole::kDelta) {
      PULSE_RETURN_IF_ERROR(TakeDigest(kBaseDigestKey, info.base_digest));
    }
    PULSE_RETURN_IF_ERROR(ReadTensors());
    for (const auto& [key, value] : metadata_) {
      if (key.starts_with(kOurs)) return DataLoss("{}: unknown metadata \"{}\"", kWhat, key);
    }
    info.extra = std::move(metadata_);
    return std::move(result_);
  }

 private:
  std::string Take(const std::string& key) {
    const auto node = metadata_.extract(key);
    return node ? node.mapped() : std::string();
  }

  Status TakeDigest(const std::string& key, Digest& digest) {
    const auto parsed = Digest::FromHex(Take(key));
    if (!parsed.ok()) return DataLoss("{}: \"{}\" is missing or no digest", kWhat, key);
    digest = *parsed;
    return OkStatus();
  }

  Status ReadTensors() {
    PULSE_ASSIGN_OR_RETURN(auto aliases, TakeAliases(metadata_));
    const bool plain =
        result_.info.role == PayloadRole::kAnchor && !metadata_.contains(kTensorsKey);
    const std::string text = Take(kTensorsKey);
    if (plain) {
      for (const SafetensorsEntry& entry : header_.entries) specs_.push_back(entry.spec);
    } else {
      PULSE_RETURN_IF_ERROR(ReadTable(text));
    }
    // The table stands in schema order, so indices into it are the schema's.
    if (!plain && !std::ranges::is_sorted(specs_, {}, &TensorSpec::name)) {
      return DataLoss("{}: the tensors are not in order of their names", kWhat);
    }
    auto schema = ModelSchema::Make(std::move(specs_), std::move(aliases));
    if (!schema.ok()) return DataLoss("{}: {}", kWhat, ToStd(schema.status().message()));
    result_.schema = *std::move(schema);
    if (plain) {
      const auto& tensors = result_.schema.tensors();
      for (size_t i = 0; i < tensors.size(); ++i) {
        result_.ranges.push_back({{i, 0, tensors[i].bytes()}, RangeCodec::kRaw, 0, 0, 0});
      }
      return OkStatus();
    }
    // One comparison stands for the spelling and for every member that was not looked at.
    if (WriteTable(result_.schema, result_.info, result_.ranges) != text) {
      return DataLoss("{}: \"{}\" is not in its one spelling", kWhat, kTensorsKey);
    }
    return CheckTableRanges();
  }

  Status ReadTable(const std::string& text) {
    PULSE_ASSIGN_OR_RETURN(const Json table, ParseStrictJson(text, kTensorsKey));
    if (!table.is_array()) return DataLoss("{}: \"{}\" is no list", kWhat, kTensorsKey);
    const bool delta = result_.info.role == PayloadRole::kDelta;
    for (size_t i = 0; i < table.size(); ++i) {
      const Json& row = table[i];
      const size_t members = delta ? 5 : 4;
      if (!row.is_array() || row.size() != members || !row[0].is_string() || !row[1].is_string() ||
          !row[2].is_array() || !row[members - 1].is_array() || (delta && !row[3].is_string())) {
        return DataLoss("{}: row {} of \"{}\" is malformed", kWhat, i, kTensorsKey);
      }
      PULSE_RETURN_IF_ERROR(ReadSpec(row));
      if (delta) {
        const auto digest = Digest::FromHex(row[3].get_ref<const std::string&>());
        if (!digest.ok()) return DataLoss("{}: row {} has no digest", kWhat, i);
        result_.info.tensor_digests.push_back(*digest);
      }
      for (const Json& range : row[members - 1]) PULSE_RETURN_IF_ERROR(ReadRange(i, range));
    }
    return OkStatus();
  }

  Status ReadSpec(const Json& row) {
    TensorSpec spec;
    spec.name = row[0].get<std::string>();
    PULSE_ASSIGN_OR_RETURN(spec.dtype, DTypeFromName(row[1].get_ref<const std::string&>()));
    for (const Json& extent : row[2]) {
      if (!extent.is_number_unsigned() || spec.shape.size() == kMaxSafetensorsRank) {
        return DataLoss("{}: tensor \"{}\" has a malformed shape", kWhat, spec.name);
      }
      spec.shape.push_back(extent.get<uint64_t>());
    }
    specs_.push_back(std::move(spec));
    return OkStatus();
  }

  Status ReadRange(size_t tensor, const Json& row) {
    const bool delta = result_.info.role == PayloadRole::kDelta;
    const auto is_number = [&](size_t i) { return row[i].is_number_unsigned(); };
    if (!row.is_array() || row.size() != (delta ? 4 : 2) || !is_number(0) || !is_number(1) ||
        (delta && (!row[2].is_string() || !is_number(3)))) {
      return DataLoss("{}: tensor \"{}\" has a malformed range", kWhat, specs_[tensor].name);
    }
    PayloadRange range;
    range.range = {tensor, row[0].get<uint64_t>(), row[1].get<uint64_t>()};
    range.codec = RangeCodec::kRaw;
    if (delta) {
      const auto& name = row[2].get_ref<const std::string&>();
      const auto* codec =
          std::ranges::find_if(kCodecs, [&](RangeCodec c) { return NameOf(c) == name; });
      if (codec == std::end(kCodecs)) {
        return Unimplemented("{}: tensor \"{}\" uses codec \"{}\"", kWhat, specs_[tensor].name,
                             name);
      }
      range.codec = *codec;
      range.changed = row[3].get<uint64_t>();
    }
    result_.ranges.push_back(range);
    return OkStatus();
  }

  Status CheckTableRanges() {
    std::vector<TensorRange> ranges;
    for (const PayloadRange& range : result_.ranges) {
      const uint64_t width = SizeOf(result_.schema.tensors()[range.range.tensor].dtype);
      const bool none_changed = range.codec == RangeCodec::kSame;
      if (result_.info.role == PayloadRole::kDelta &&
          (none_changed != (range.changed == 0) || range.changed > range.range.bytes() / width)) {
        return DataLoss("{}: a range says that {} elements changed", kWhat, range.changed);
      }
      ranges.push_back(range.range);
    }
    const Status checked = result_.info.role == PayloadRole::kDelta
                               ? CheckRanges(result_.schema, ranges)
                               : CheckRuns(result_.schema, ranges);
    if (!checked.ok()) return DataLoss("{}: {}", kWhat, ToStd(checked.message()));
    return OkStatus();
  }

  const SafetensorsHeader& header_;
  std::map<std::string, std::string> metadata_;
  PayloadMetadata result_;
  std::vector<TensorSpec> specs_;
};

}  // namespace

std::string_view NameOf(RangeCodec codec) {
  switch (codec) {
    case RangeCodec::kSame:
      return "same";
    case RangeCodec::kRaw:
      return "raw";
    case RangeCodec::kFast:
      return "fast";
    case RangeCodec::kSmall:
      return "small";
  }
  return "";
}

std::string BlobName(const ModelSchema& schema, const TensorRange& range) {
  return fmt::format("{}#{}", schema.tensors()[range.tensor].name, range.begin);
}

bool IsWholeTensor(const ModelSchema& schema, const TensorRange& range) {
  return range.begin == 0 && range.end == schema.tensors()[range.tensor].bytes();
}

StatusOr<std::map<std::string, std::string>> WritePayloadMetadata(
    const ModelSchema& schema, const PayloadInfo& info, const std::vector<PayloadRange>& ranges) {
  std::map<std::string, std::string> metadata = info.extra;
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kOurs)) {
      return InvalidArgument("metadata \"{}\": keys that begin with \"{}\" are ours", key, kOurs);
    }
  }
  metadata[kPayloadFormatKey] = kFormat;
  metadata[kRoleKey] = NameOf(info.role);
  if (!info.run.empty()) metadata[kRunKey] = info.run;
  if (!info.base.empty()) metadata[kBaseKey] = info.base;
  if (!info.target.empty()) metadata[kTargetKey] = info.target;
  if (info.role == PayloadRole::kDelta) metadata[kBaseDigestKey] = info.base_digest.Hex();
  metadata[kTargetDigestKey] = info.target_digest.Hex();
  const bool plain =
      info.role == PayloadRole::kAnchor && ranges.size() == schema.tensors().size() &&
      std::ranges::all_of(ranges, [&](const auto& r) { return IsWholeTensor(schema, r.range); });
  if (!plain) metadata[kTensorsKey] = WriteTable(schema, info, ranges);
  return WithAliases(std::move(metadata), schema);
}

StatusOr<PayloadMetadata> ReadPayloadMetadata(const SafetensorsHeader& header) {
  return MetadataReader(header).Read();
}

}  // namespace pulse
