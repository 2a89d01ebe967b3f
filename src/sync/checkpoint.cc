#include "sync/checkpoint.h"

#include <algorithm>
#include <set>

#include "sync/in_order_bytes.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
// The reference library's limit for a header; an index says less per tensor.
constexpr uint64_t kMaxIndexBytes = kMaxSafetensorsHeaderBytes;

// Index entries come from strangers and become paths.
Status CheckShardName(const std::string& name) {
  const bool plain = !name.empty() && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain && name.ends_with(".safetensors")) return OkStatus();
  return DataLoss("the index names \"{}\", expected a .safetensors file in the same folder", name);
}

StatusOr<std::map<std::string, std::string>> ParseAliases(const std::string& text) {
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(text, kAliasesKey));
  if (!json.is_object()) return DataLoss("{}: not an object", kAliasesKey);
  std::map<std::string, std::string> aliases;
  for (const auto& [alias, target] : json.items()) {
    if (!target.is_string()) return DataLoss("{}: \"{}\" is not text", kAliasesKey, alias);
    aliases[alias] = target.get<std::string>();
  }
  return aliases;
}

Status CheckIndexAgainstFiles(const std::string& path,
                              const std::map<std::string, std::string>& weight_map,
                              const std::map<std::string, std::string>& found) {
  for (const auto& [tensor, file] : weight_map) {
    const auto at = found.find(tensor);
    if (at == found.end() || at->second != file) {
      return DataLoss("{}: tensor \"{}\" is not in \"{}\", where the index says it is", path,
                      tensor, file);
    }
  }
  for (const auto& [tensor, file] : found) {
    if (!weight_map.contains(tensor)) {
      return DataLoss("{}: tensor \"{}\" of \"{}\" is not in the index", path, tensor, file);
    }
  }
  return OkStatus();
}

StatusOr<SafetensorsHeader> ReadHeader(ByteView file) {
  PULSE_ASSIGN_OR_RETURN(const uint64_t bytes, SafetensorsHeaderBytes(file, file.size()));
  return ParseSafetensorsHeader(file.subspan(kSafetensorsPrefixBytes, bytes), file.size());
}

}  // namespace

StatusOr<std::map<std::string, std::string>> ParseCheckpointIndex(ByteView text,
                                                                  const std::string& where) {
  PULSE_ASSIGN_OR_RETURN(const Json json, ParseStrictJson(AsText(text), where));
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (found == json.end() || !found->is_object()) return DataLoss("{}: no \"weight_map\"", where);
  std::map<std::string, std::string> weight_map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) return DataLoss("{}: tensor \"{}\" has no file name", where, tensor);
    PULSE_RETURN_IF_ERROR(Annotate(CheckShardName(file.get<std::string>()), where));
    weight_map[tensor] = file.get<std::string>();
  }
  return weight_map;
}

StatusOr<std::map<std::string, std::string>> TakeAliases(
    std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kAliasesKey);
  if (found == metadata.end()) return std::map<std::string, std::string>();
  PULSE_ASSIGN_OR_RETURN(auto aliases, ParseAliases(found->second));
  metadata.erase(found);
  return aliases;
}

std::map<std::string, std::string> WithAliases(std::map<std::string, std::string> metadata,
                                               const ModelSchema& schema) {
  if (!schema.aliases().empty()) metadata[kAliasesKey] = CanonicalJson(Json(schema.aliases()));
  return metadata;
}

Status Checkpoint::AddFile(Filesystem& fs, const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(auto file, fs.Open(path));
  PULSE_ASSIGN_OR_RETURN(const ByteView bytes, file->Map());
  auto header = ReadHeader(bytes);
  PULSE_RETURN_IF_ERROR(Annotate(header.status(), path));
  auto aliases = TakeAliases(header->metadata);
  PULSE_RETURN_IF_ERROR(Annotate(aliases.status(), path));
  for (auto& [alias, target] : *aliases) {
    const auto [at, fresh] = aliases_.emplace(alias, target);
    if (!fresh && at->second != target)
      return DataLoss("{}: alias \"{}\" has two targets", path, alias);
  }
  for (SafetensorsEntry& entry : header->entries) {
    pieces_.push_back({std::move(entry.spec),
                       bytes.subspan(header->data_offset + entry.begin, entry.end - entry.begin)});
  }
  if (files_.empty()) {
    metadata_ = std::move(header->metadata);
  } else {
    std::erase_if(metadata_, [&](const auto& item) {
      const auto same = header->metadata.find(item.first);
      return same == header->metadata.end() || same->second != item.second;
    });
  }
  files_.push_back(std::move(file));
  return OkStatus();
}

Status Checkpoint::AddFolder(Filesystem& fs, const std::string& folder) {
  const std::string index_path = fmt::format("{}/{}", folder, kIndexName);
  const auto text = ReadFile(fs, index_path, kMaxIndexBytes);
  if (absl::IsNotFound(text.status())) {
    const std::string single = fmt::format("{}/{}", folder, kSingleName);
    const Status added = AddFile(fs, single);
    if (!absl::IsNotFound(added)) return added;
    return NotFound("{}: neither {} nor {} is in this folder", folder, kIndexName, kSingleName);
  }
  PULSE_RETURN_IF_ERROR(text.status());
  PULSE_ASSIGN_OR_RETURN(const auto index, ParseCheckpointIndex(*text, index_path));
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  std::map<std::string, std::string> found;
  for (const std::string& name : names) {
    const size_t before = pieces_.size();
    const Status added = AddFile(fs, fmt::format("{}/{}", folder, name));
    if (absl::IsNotFound(added)) return DataLoss("{}: file \"{}\" is missing", index_path, name);
    PULSE_RETURN_IF_ERROR(added);
    for (size_t i = before; i < pieces_.size(); ++i) {
      if (!found.emplace(pieces_[i].spec.name, name).second) {
        return DataLoss("{}: tensor \"{}\" is in two files", folder, pieces_[i].spec.name);
      }
    }
  }
  return CheckIndexAgainstFiles(index_path, index, found);
}

Status Checkpoint::Finish() {
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.spec.name < b.spec.name; });
  std::vector<TensorSpec> specs;
  for (const Piece& piece : pieces_) specs.push_back(piece.spec);
  auto schema = ModelSchema::Make(std::move(specs), std::move(aliases_));
  // Of a call's arguments these would be invalid arguments; of a file they are damage.
  if (!schema.ok()) return DataLoss("{}", ToStd(schema.status().message()));
  schema_ = *std::move(schema);
  view_.schema = &schema_;
  for (const Piece& piece : pieces_) view_.tensors.push_back(piece.bytes);
  pieces_.clear();
  return OkStatus();
}

StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(Filesystem& fs, const std::string& path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  PULSE_ASSIGN_OR_RETURN(const DirectoryEntry entry, fs.Stat(path));
  if (entry.kind == DirectoryEntry::Kind::kDirectory) {
    PULSE_RETURN_IF_ERROR(checkpoint->AddFolder(fs, path));
  } else {
    PULSE_RETURN_IF_ERROR(checkpoint->AddFile(fs, path));
  }
  PULSE_RETURN_IF_ERROR(Annotate(checkpoint->Finish(), path));
  return checkpoint;
}

CheckpointWriter::CheckpointWriter(std::string path, const ModelSchema& schema)
    : path_(std::move(path)), schema_(schema), order_(SafetensorsOrder(schema.tensors())) {
  digests_.tensors.resize(order_.size());
}

StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    Filesystem& fs, const std::string& path, const ModelSchema& schema,
    const std::map<std::string, std::string>& metadata) {
  if (metadata.contains(kAliasesKey)) {
    return InvalidArgument("metadata \"{}\" is written from the schema", kAliasesKey);
  }
  std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(path, schema));
  std::vector<TensorSpec> specs;
  for (const size_t i : writer->order_) specs.push_back(schema.tensors()[i]);
  PULSE_ASSIGN_OR_RETURN(const Bytes header,
                         WriteSafetensorsHeader(specs, WithAliases(metadata, schema)));
  PULSE_ASSIGN_OR_RETURN(writer->file_, StagedFile::Create(fs, path));
  PULSE_RETURN_IF_ERROR(writer->file_->Append(header));
  writer->CloseTensors();
  return writer;
}

// Finishes the current tensor, and the empty ones behind it, when all their bytes are there.
void CheckpointWriter::CloseTensors() {
  while (current_ < order_.size() && in_tensor_ == schema_.tensors()[order_[current_]].bytes()) {
    digests_.tensors[order_[current_]] = digester_.Finish();
    digester_ = TensorDigester();
    ++current_;
    in_tensor_ = 0;
  }
}

Status CheckpointWriter::Append(ByteView bytes) {
  if (bytes.empty()) return OkStatus();
  const uint64_t room =
      current_ < order_.size() ? schema_.tensors()[order_[current_]].bytes() - in_tensor_ : 0;
  if (bytes.size() > room) {
    return InvalidArgument("{}: {} bytes appended where the tensor has room for {}", path_,
                           bytes.size(), room);
  }
  PULSE_RETURN_IF_ERROR(file_->Append(bytes));
  digester_.Update(bytes);
  in_tensor_ += bytes.size();
  CloseTensors();
  return OkStatus();
}

StatusOr<ViewDigests> CheckpointWriter::Finish() {
  if (current_ < order_.size()) {
    return FailedPrecondition("{}: tensor \"{}\" is not complete", path_,
                              schema_.tensors()[order_[current_]].name);
  }
  PULSE_RETURN_IF_ERROR(file_->Finish());
  digests_.view = ViewDigest(schema_, digests_.tensors);
  return digests_;
}

Status CheckpointWriter::Commit() {
  return file_->Commit();
}

StatusOr<ViewDigests> WriteCheckpoint(Filesystem& fs, const std::string& path,
                                      const ViewSource& view,
                                      const WriteCheckpointOptions& options) {
  const ModelSchema& schema = view.schema();
  PULSE_ASSIGN_OR_RETURN(const auto writer,
                         CheckpointWriter::Create(fs, path, schema, options.metadata));
  std::vector<TensorRange> cells;
  for (const size_t tensor : writer->order()) {
    const uint64_t bytes = schema.tensors()[tensor].bytes();
    for (uint64_t begin = 0; begin < bytes; begin += kCellBytes) {
      cells.push_back({tensor, begin, std::min(bytes, begin + kCellBytes)});
    }
  }
  uint64_t done = 0;
  const auto append = [&](size_t, ByteView piece) -> Status {
    PULSE_RETURN_IF_ERROR(writer->Append(piece));
    done += piece.size();
    if (options.progress) options.progress(done);
    return OkStatus();
  };
  PULSE_RETURN_IF_ERROR(ProduceBytesInOrder(
      cells.size(), options.threads,
      [&](size_t i, Bytes& scratch) { return view.Read(cells[i], scratch); }, append));
  PULSE_ASSIGN_OR_RETURN(ViewDigests digests, writer->Finish());
  if (options.expected && digests.view != *options.expected) {
    return DataLoss("{}: the bytes have digest {}, expected {}", path, digests.view.Hex(),
                    options.expected->Hex());
  }
  PULSE_RETURN_IF_ERROR(writer->Commit());
  return digests;
}

}  // namespace pulse
