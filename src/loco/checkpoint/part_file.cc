#include "loco/checkpoint/part_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "codec/safetensors.h"

namespace pulse::loco {
namespace {

constexpr char kFormat[] = "pulseloco-checkpoint-part";
constexpr char kVersion[] = "1";
constexpr uint64_t kMaxHeaderBytes = 1 << 16;  // ours have less than 2 KiB
constexpr size_t kPieceBytes = size_t{4} << 20;

struct NamedArray {
  const char* name;
  std::vector<float> State::*values;
};

// In the order of the file's data: by name, as safetensors lays out equal dtypes.
constexpr std::array<NamedArray, 5> kArrays = {{{"m", &State::m},
                                                {"outer_momentum", &State::outer_momentum},
                                                {"residual", &State::residual},
                                                {"theta", &State::theta},
                                                {"v", &State::v}}};

std::string DigestKey(const char* array) {
  return fmt::format("digest.{}", array);
}

std::map<std::string, std::string> MetadataOf(const PartHeader& header, const State& state) {
  std::map<std::string, std::string> metadata = {{"format", kFormat},
                                                 {"version", kVersion},
                                                 {"trainer", std::to_string(header.id.trainer)},
                                                 {"shard", std::to_string(header.id.shard)},
                                                 {"shards", std::to_string(header.id.shards)},
                                                 {"begin", std::to_string(header.range.begin)},
                                                 {"end", std::to_string(header.range.end)},
                                                 {"round", std::to_string(header.round)},
                                                 {"step", std::to_string(header.step)}};
  for (const NamedArray& array : kArrays) {
    const std::vector<float>& values = state.*array.values;
    if (values.empty()) continue;
    metadata[DigestKey(array.name)] = TensorDigest(AsBytes(std::span<const float>(values))).Hex();
  }
  return metadata;
}

StatusOr<Bytes> HeaderBytesOf(const PartHeader& header, const State& state) {
  std::vector<TensorSpec> specs;
  for (const NamedArray& array : kArrays) {
    const std::vector<float>& values = state.*array.values;
    if (!values.empty()) specs.push_back({array.name, DType::kF32, {values.size()}});
  }
  return WriteSafetensorsHeader(specs, MetadataOf(header, state));
}

// Reads numbers and digests out of a part's metadata; the first that is not there is remembered.
class MetadataReader {
 public:
  explicit MetadataReader(const std::map<std::string, std::string>& metadata)
      : metadata_(metadata) {}

  template <typename T>
  T Number(const char* key) {
    const std::string text = Text(key);
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) Fail(key);
    return value;
  }
  Digest ArrayDigest(const char* array) {
    const auto digest = Digest::FromHex(Text(DigestKey(array).c_str()));
    if (!digest.ok()) Fail(array);
    return digest.ok() ? *digest : Digest();
  }
  std::string Text(const char* key) {
    const auto at = metadata_.find(key);
    if (at == metadata_.end()) Fail(key);
    return at == metadata_.end() ? "" : at->second;
  }
  const Status& status() const { return status_; }

 private:
  void Fail(const char* key) {
    if (status_.ok()) status_ = DataLoss("its metadata has no valid \"{}\"", key);
  }

  const std::map<std::string, std::string>& metadata_;
  Status status_;
};

StatusOr<PartHeader> ParseHeader(const SafetensorsHeader& file) {
  MetadataReader reader(file.metadata);
  const std::string format = reader.Text("format"), version = reader.Text("version");
  PartHeader header;
  header.id = {reader.Number<uint32_t>("trainer"), reader.Number<uint32_t>("shard"),
               reader.Number<uint32_t>("shards")};
  header.range = {reader.Number<uint64_t>("begin"), reader.Number<uint64_t>("end")};
  header.round = reader.Number<uint64_t>("round");
  header.step = reader.Number<uint64_t>("step");
  PULSE_RETURN_IF_ERROR(reader.status());
  if (format != kFormat) return DataLoss("it is a \"{}\", not a \"{}\"", format, kFormat);
  if (version != kVersion) {
    return Unimplemented("format version {}; this build reads {}", version, kVersion);
  }
  if (header.range.begin > header.range.end) return DataLoss("its range ends before it begins");
  return header;
}

// The header of a part, checked against its seal.
StatusOr<SafetensorsHeader> ReadHeader(const ReadableFile& file, const PartSeal& seal) {
  if (file.size() != seal.bytes) {
    return DataLoss("it has {} bytes; {} were committed", file.size(), seal.bytes);
  }
  Bytes head(kSafetensorsPrefixBytes);
  if (file.size() < head.size()) return DataLoss("it is too short for a header");
  PULSE_RETURN_IF_ERROR(file.ReadAt(0, head));
  PULSE_ASSIGN_OR_RETURN(const uint64_t length, SafetensorsHeaderBytes(head, file.size()));
  if (length > kMaxHeaderBytes) return DataLoss("its header has {} bytes", length);
  head.resize(kSafetensorsPrefixBytes + length);
  PULSE_RETURN_IF_ERROR(file.ReadAt(0, head));
  if (DigestOf(head) != seal.digest) return DataLoss("its header is not the one committed");
  return ParseSafetensorsHeader(ByteView(head).subspan(kSafetensorsPrefixBytes), file.size());
}

// Reads one array to its end and copies elements [from, from + out.size()) of it to `out`.
Status ReadArray(const ReadableFile& file, uint64_t offset, uint64_t elements, uint64_t from,
                 std::span<float> out, const Digest& expected) {
  TensorDigester digester;
  Bytes piece;
  const uint64_t bytes = elements * sizeof(float);
  const uint64_t first = from * sizeof(float), last = first + out.size_bytes();
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, bytes - at)));
    PULSE_RETURN_IF_ERROR(file.ReadAt(offset + at, piece));
    digester.Update(piece);
    const uint64_t begin = std::max(at, first), end = std::min(at + piece.size(), last);
    if (begin < end) {
      std::memcpy(reinterpret_cast<uint8_t*>(out.data()) + (begin - first),
                  piece.data() + (begin - at), end - begin);
    }
  }
  if (digester.Finish() != expected) return DataLoss("its bytes are damaged");
  return OkStatus();
}

Status ReadArrays(const ReadableFile& file, const SafetensorsHeader& layout, ElementRange part,
                  ElementRange range, State& state) {
  if (range.length() == 0) return OkStatus();  // `state` does not tell which arrays there are
  MetadataReader reader(layout.metadata);
  const uint64_t begin = std::max(part.begin, range.begin), end = std::min(part.end, range.end);
  size_t found = 0;
  for (const NamedArray& array : kArrays) {
    std::vector<float>& values = state.*array.values;
    const auto entry =
        std::find_if(layout.entries.begin(), layout.entries.end(),
                     [&](const SafetensorsEntry& e) { return e.spec.name == array.name; });
    const bool expected = !values.empty() && part.begin < part.end;
    if ((entry != layout.entries.end()) != expected) {
      return DataLoss("it {} an array \"{}\"", expected ? "lacks" : "has", array.name);
    }
    if (!expected) continue;
    ++found;
    if (entry->spec.dtype != DType::kF32 || entry->spec.elements() != part.end - part.begin) {
      return DataLoss("its array \"{}\" does not fit its range", array.name);
    }
    const Digest digest = reader.ArrayDigest(array.name);
    PULSE_RETURN_IF_ERROR(reader.status());
    const auto out = begin < end ? std::span(values).subspan(begin - range.begin, end - begin)
                                 : std::span<float>();
    PULSE_RETURN_IF_ERROR(
        Annotate(ReadArray(file, layout.data_offset + entry->begin, part.end - part.begin,
                           begin < end ? begin - part.begin : 0, out, digest),
                 array.name));
  }
  if (found != layout.entries.size()) return DataLoss("it has an array that is none of ours");
  return OkStatus();
}

// layout: becomes the file's.
StatusOr<PartHeader> ReadOpenHeader(const ReadableFile& file, const PartId& id,
                                    const PartSeal& seal, SafetensorsHeader& layout) {
  PULSE_ASSIGN_OR_RETURN(layout, ReadHeader(file, seal));
  PULSE_ASSIGN_OR_RETURN(PartHeader header, ParseHeader(layout));
  if (header.id != id) return DataLoss("it is {}", header.id.FileName());
  return header;
}

StatusOr<ElementRange> ReadOpenPart(const ReadableFile& file, const PartId& id,
                                    const PartSeal& seal, ElementRange range, State& state) {
  SafetensorsHeader layout;
  PULSE_ASSIGN_OR_RETURN(const PartHeader header, ReadOpenHeader(file, id, seal, layout));
  PULSE_RETURN_IF_ERROR(ReadArrays(file, layout, header.range, range, state));
  state.round = header.round;
  state.step = header.step;
  return header.range;
}

}  // namespace

std::string PartId::FileName() const {
  return fmt::format("trainer-{:05}-shard-{:05}-of-{:05}.safetensors", trainer, shard, shards);
}

StatusOr<PartSeal> WritePart(Filesystem& fs, const std::string& folder, const PartHeader& header,
                             const State& state) {
  const std::string path = fmt::format("{}/{}", folder, header.id.FileName());
  const std::string temporary = path + ".tmp";
  PULSE_ASSIGN_OR_RETURN(const Bytes head, HeaderBytesOf(header, state));
  PULSE_RETURN_IF_ERROR(fs.CreateDirectories(folder));
  // Of a process that died at it: nobody else writes this part.
  if (const Status removed = fs.Remove(temporary); !removed.ok() && !absl::IsNotFound(removed)) {
    return removed;
  }
  PartSeal seal = {.bytes = head.size(), .digest = DigestOf(head)};
  PULSE_ASSIGN_OR_RETURN(const auto file, fs.Create(temporary));
  PULSE_RETURN_IF_ERROR(file->Append(head));
  for (const NamedArray& array : kArrays) {
    const ByteView bytes = AsBytes(std::span<const float>(state.*array.values));
    if (bytes.empty()) continue;
    PULSE_RETURN_IF_ERROR(file->Append(bytes));
    seal.bytes += bytes.size();
  }
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(file->Close());
  PULSE_RETURN_IF_ERROR(fs.Rename(temporary, path));
  PULSE_RETURN_IF_ERROR(SyncDirectoryWherePossible(fs, folder));
  return seal;
}

StatusOr<PartHeader> ReadPartHeader(Filesystem& fs, const std::string& folder, const PartId& id,
                                    const PartSeal& seal) {
  const std::string path = fmt::format("{}/{}", folder, id.FileName());
  PULSE_ASSIGN_OR_RETURN(const auto file, fs.Open(path));
  SafetensorsHeader layout;
  auto header = ReadOpenHeader(*file, id, seal, layout);
  if (!header.ok()) return Annotate(header.status(), path);
  return header;
}

StatusOr<ElementRange> ReadPart(Filesystem& fs, const std::string& folder, const PartId& id,
                                const PartSeal& seal, ElementRange range, State& state) {
  const std::string path = fmt::format("{}/{}", folder, id.FileName());
  PULSE_ASSIGN_OR_RETURN(const auto file, fs.Open(path));
  auto read = ReadOpenPart(*file, id, seal, range, state);
  if (!read.ok()) return Annotate(read.status(), path);
  return read;
}

}  // namespace pulse::loco
