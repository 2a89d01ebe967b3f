#include "codec/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

namespace pulse {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataName = "__metadata__";

// The format is shallow: tensor -> field -> numbers. So the parser is a handler of JSON events that
// knows where it stands, and nothing is built that is not kept.
class HeaderHandler {
 public:
  SafetensorsHeader header;
  Status status;

  bool null() { return Refuse("null"); }
  bool boolean(bool) { return Refuse("a boolean"); }
  bool number_float(double, const std::string&) { return Refuse("a fraction"); }
  bool number_integer(int64_t) { return Refuse("a negative number"); }
  bool binary(Json::binary_t&) { return Refuse("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (at_ != At::kShape && at_ != At::kOffsets) return Refuse("a number");
    if (numbers_.size() == kMaxSafetensorsRank) return Fail("a list with too many numbers");
    numbers_.push_back(value);
    return true;
  }

  bool string(std::string& value) {
    if (at_ == At::kMetadata) {
      return header.metadata.emplace(key_, std::move(value)).second || Fail("a repeated key");
    }
    if (at_ != At::kTensor || key_ != "dtype") return Refuse("a string");
    if (has_dtype_) return Fail("a repeated \"dtype\"");
    has_dtype_ = true;
    auto dtype = DTypeFromName(value);
    if (!dtype.ok()) {
      status = Annotate(dtype.status(), fmt::format("tensor \"{}\"", entry_.spec.name));
      return false;
    }
    entry_.spec.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) {
    if (at_ == At::kStart) {
      at_ = At::kTop;
    } else if (at_ == At::kTop && key_ == kMetadataName) {
      if (std::exchange(has_metadata_, true)) return Fail("a repeated \"__metadata__\"");
      at_ = At::kMetadata;
    } else if (at_ == At::kTop) {
      entry_ = {};
      entry_.spec.name = key_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      at_ = At::kTensor;
    } else {
      return Refuse("an object");
    }
    return true;
  }

  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }

  bool end_object() {
    if (at_ == At::kTensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        return Fail("a tensor without dtype, shape or data_offsets");
      }
      header.entries.push_back(std::move(entry_));
      at_ = At::kTop;
    } else {
      at_ = at_ == At::kMetadata ? At::kTop : At::kEnd;
    }
    return true;
  }

  bool start_array(size_t) {
    if (at_ != At::kTensor) return Refuse("a list");
    if (key_ == "shape" && !std::exchange(has_shape_, true)) {
      at_ = At::kShape;
    } else if (key_ == "data_offsets" && !std::exchange(has_offsets_, true)) {
      at_ = At::kOffsets;
    } else {
      return Fail("an unknown or repeated list");
    }
    numbers_.clear();
    return true;
  }

  bool end_array() {
    if (at_ == At::kShape) {
      entry_.spec.shape = numbers_;
    } else {
      if (numbers_.size() != 2) return Fail("data_offsets that are not two numbers");
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    at_ = At::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    status = DataLoss("safetensors header: not valid JSON at byte {}", position);
    return false;
  }

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(std::string_view what) {
    status = DataLoss("safetensors header: {} at or near key \"{}\"", what, key_);
    return false;
  }
  bool Refuse(std::string_view what) { return Fail(fmt::format("{} out of place", what)); }

  At at_ = At::kStart;
  std::string key_;
  SafetensorsEntry entry_;
  std::vector<uint64_t> numbers_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  bool has_metadata_ = false;
};

// Shape times element size, or nullopt when it does not fit.
bool ByteCount(const TensorSpec& spec, uint64_t* bytes) {
  uint64_t total = SizeOf(spec.dtype);
  bool empty = false;
  for (const uint64_t extent : spec.shape) {
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(total, extent, &total)) {
      return false;  // also for an empty tensor: no writer means such extents
    }
  }
  *bytes = empty ? 0 : total;
  return true;
}

Status CheckLayout(SafetensorsHeader& header) {
  std::vector<SafetensorsEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.spec.name) < std::tie(b.begin, b.end, b.spec.name);
  });
  uint64_t at = 0;
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    const std::string& name = entry.spec.name;
    if (!names.insert(name).second)
      return DataLoss("safetensors header: tensor \"{}\" appears twice", name);
    if (entry.begin != at || entry.end < entry.begin) {
      return DataLoss("safetensors header: tensor \"{}\" lies at [{}, {}), expected to begin at {}",
                      name, entry.begin, entry.end, at);
    }
    uint64_t bytes = 0;
    if (!ByteCount(entry.spec, &bytes) || bytes != entry.end - entry.begin) {
      return DataLoss(
          "safetensors header: tensor \"{}\" has {} bytes, which its shape does not give", name,
          entry.end - entry.begin);
    }
    at = entry.end;
  }
  header.data_bytes = at;
  return OkStatus();
}

void AppendEntry(const TensorSpec& spec, uint64_t begin, std::string& out) {
  out += Json(spec.name).dump();
  out += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[", NameOf(spec.dtype));
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ",", spec.shape[i]);
  }
  out += fmt::format("],\"data_offsets\":[{},{}]}}", begin, begin + spec.bytes());
}

// Throws what nlohmann's serializer throws for text that is not UTF-8.
Status BuildJson(std::span<const TensorSpec> in_order,
                 const std::map<std::string, std::string>& metadata, std::string& json) {
  json.assign(1, '{');
  if (!metadata.empty()) {
    json += fmt::format("\"{}\":{}", kMetadataName, Json(metadata).dump());
  }
  uint64_t at = 0;
  std::set<std::string_view> names;
  for (const TensorSpec& spec : in_order) {
    if (spec.name == kMetadataName)
      return InvalidArgument("a tensor can't be called \"__metadata__\"");
    if (spec.shape.size() > kMaxSafetensorsRank) {
      return InvalidArgument("tensor \"{}\" has more than {} dimensions", spec.name,
                             kMaxSafetensorsRank);
    }
    if (!names.insert(spec.name).second) {
      return InvalidArgument("tensor \"{}\" appears twice", spec.name);
    }
    if (json.size() > 1) json += ",";
    AppendEntry(spec, at, json);
    at += spec.bytes();
  }
  json += "}";
  return OkStatus();
}

}  // namespace

StatusOr<uint64_t> SafetensorsHeaderBytes(ByteView prefix, uint64_t file_bytes) {
  if (prefix.size() < kSafetensorsPrefixBytes || file_bytes < kSafetensorsPrefixBytes) {
    return DataLoss("not a safetensors file: {} bytes, too short for a header", file_bytes);
  }
  const uint64_t bytes = LoadLittle<uint64_t>(prefix.data());
  if (bytes > kMaxSafetensorsHeaderBytes) {
    return DataLoss("not a safetensors file: a header of {} bytes, at most {} are allowed", bytes,
                    kMaxSafetensorsHeaderBytes);
  }
  if (bytes > file_bytes - kSafetensorsPrefixBytes) {
    return DataLoss("safetensors file cut short: the header has {} bytes, the file {}", bytes,
                    file_bytes);
  }
  return bytes;
}

StatusOr<SafetensorsHeader> ParseSafetensorsHeader(ByteView json, uint64_t file_bytes) {
  if (json.empty() || json[0] != '{') {
    return DataLoss("not a safetensors file: its header does not start with '{{'");
  }
  HeaderHandler handler;
  if (!Json::sax_parse(json.begin(), json.end(), &handler)) {
    return handler.status.ok() ? DataLoss("safetensors header: not valid JSON") : handler.status;
  }
  SafetensorsHeader header = std::move(handler.header);
  PULSE_RETURN_IF_ERROR(CheckLayout(header));
  header.data_offset = kSafetensorsPrefixBytes + json.size();
  if (file_bytes < header.data_offset || file_bytes - header.data_offset != header.data_bytes) {
    return DataLoss("safetensors file has {} bytes, its header says {} + {}", file_bytes,
                    header.data_offset, header.data_bytes);
  }
  return header;
}

std::vector<size_t> SafetensorsOrder(std::span<const TensorSpec> specs) {
  std::vector<size_t> order(specs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const size_t a_bytes = SizeOf(specs[a].dtype);
    const size_t b_bytes = SizeOf(specs[b].dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : specs[a].name < specs[b].name;
  });
  return order;
}

StatusOr<Bytes> WriteSafetensorsHeader(std::span<const TensorSpec> in_order,
                                       const std::map<std::string, std::string>& metadata) {
  std::string json;
  try {
    PULSE_RETURN_IF_ERROR(BuildJson(in_order, metadata, json));
  } catch (const Json::exception&) {
    return InvalidArgument("a tensor's name or the metadata is not UTF-8");
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return ResourceExhausted("the safetensors header would have {} bytes, at most {} are allowed",
                             json.size(), kMaxSafetensorsHeaderBytes);
  }
  Bytes out;
  out.reserve(kSafetensorsPrefixBytes + json.size());
  AppendLittle(static_cast<uint64_t>(json.size()), out);
  out.insert(out.end(), json.begin(), json.end());
  return out;
}

}  // namespace pulse
