#include "sync/patch.h"

#include <algorithm>
#include <cstring>

#include "sync/byte_sources.h"
#include "sync/payload_metadata.h"
#include "sync/range_codec.h"

namespace pulse {
namespace {

StatusOr<SafetensorsHeader> ReadHeader(const ByteSource& source) {
  Bytes prefix(std::min(kSafetensorsPrefixBytes, source.size()));
  PULSE_RETURN_IF_ERROR(source.Read(0, prefix));
  PULSE_ASSIGN_OR_RETURN(const uint64_t bytes, SafetensorsHeaderBytes(prefix, source.size()));
  Bytes json(bytes);
  PULSE_RETURN_IF_ERROR(source.Read(kSafetensorsPrefixBytes, json));
  return ParseSafetensorsHeader(json, source.size());
}

// Finds every range's blob, and a range for every blob.
Status PlaceBlobs(const SafetensorsHeader& header, PayloadMetadata& metadata) {
  std::map<std::string_view, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries[entry.spec.name] = &entry;
  for (PayloadRange& range : metadata.ranges) {
    if (range.codec == RangeCodec::kSame) continue;
    const TensorSpec& spec = metadata.schema.tensors()[range.range.tensor];
    const bool plain =
        metadata.info.role == PayloadRole::kAnchor && IsWholeTensor(metadata.schema, range.range);
    const std::string name = plain ? spec.name : BlobName(metadata.schema, range.range);
    const auto found = entries.find(name);
    if (found == entries.end()) return DataLoss("payload file: blob \"{}\" is missing", name);
    const SafetensorsEntry& entry = *found->second;
    const uint64_t bytes = entry.end - entry.begin;
    const bool typed =
        plain ? entry.spec == spec : entry.spec.dtype == DType::kU8 && entry.spec.shape.size() == 1;
    // An encoded blob that saves nothing would be a raw one.
    const bool sized = range.codec == RangeCodec::kRaw ? bytes == range.range.bytes()
                                                       : bytes < range.range.bytes();
    if (!typed || !sized) {
      return DataLoss("payload file: blob \"{}\" ({} bytes) does not fit its range", name, bytes);
    }
    range.blob_begin = entry.begin;
    range.blob_end = entry.end;
    entries.erase(found);
  }
  if (!entries.empty()) {
    return DataLoss("payload file: nothing is said about blob \"{}\"", entries.begin()->first);
  }
  return OkStatus();
}

bool SameInfo(const PayloadInfo& a, const PayloadInfo& b) {
  return a.role == b.role && a.run == b.run && a.base == b.base && a.target == b.target &&
         a.base_digest == b.base_digest && a.target_digest == b.target_digest &&
         a.tensor_digests == b.tensor_digests;
}

std::vector<TensorRange> WholeTensors(const ModelSchema& schema) {
  std::vector<TensorRange> whole;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    whole.push_back({i, 0, schema.tensors()[i].bytes()});
  }
  return whole;
}

// Makes `bytes` the contents of `scratch`, wherever they lie.
void MoveInto(ByteView bytes, Bytes& scratch) {
  if (bytes.data() == scratch.data()) {
    scratch.resize(bytes.size());
    return;
  }
  const std::less<const uint8_t*> less;
  const bool inside =
      !less(bytes.data(), scratch.data()) && less(bytes.data(), scratch.data() + scratch.size());
  if (!inside) scratch.resize(bytes.size());
  std::memmove(scratch.data(), bytes.data(), bytes.size());
  scratch.resize(bytes.size());
}

}  // namespace

StatusOr<std::shared_ptr<const PayloadFile>> PayloadFile::Open(
    std::shared_ptr<const ByteSource> source) {
  PULSE_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadHeader(*source));
  PULSE_ASSIGN_OR_RETURN(PayloadMetadata metadata, ReadPayloadMetadata(header));
  PULSE_RETURN_IF_ERROR(PlaceBlobs(header, metadata));
  std::shared_ptr<PayloadFile> file(new PayloadFile);
  if (const auto* mapped = dynamic_cast<const MappedSource*>(source.get())) {
    file->mapped_ = mapped->bytes();
  }
  file->source_ = std::move(source);
  file->data_offset_ = header.data_offset;
  file->info_ = std::move(metadata.info);
  file->schema_ = std::move(metadata.schema);
  file->ranges_ = std::move(metadata.ranges);
  return std::shared_ptr<const PayloadFile>(std::move(file));
}

uint64_t PayloadFile::changed() const {
  uint64_t changed = 0;
  for (const PayloadRange& range : ranges_) changed += range.changed;
  return changed;
}

Status PayloadFile::Apply(const kernels::KernelTable& kernels, size_t i, ByteSpan bytes) const {
  const PayloadRange& range = ranges_[i];
  if (range.codec == RangeCodec::kSame) return OkStatus();
  if (range.codec == RangeCodec::kRaw) return ReadRaw(i, 0, bytes);
  const TensorSpec& spec = schema_.tensors()[range.range.tensor];
  const uint64_t at = data_offset_ + range.blob_begin;
  const uint64_t size = range.blob_end - range.blob_begin;
  Bytes read;
  ByteView blob;
  if (mapped_.empty()) {
    read.resize(size);
    PULSE_RETURN_IF_ERROR(source_->Read(at, read));
    blob = read;
  } else {
    blob = mapped_.subspan(at, size);
  }
  return Annotate(ApplyRange(kernels, range.codec, blob, spec.dtype, bytes),
                  fmt::format("tensor \"{}\" at byte {}", spec.name, range.range.begin));
}

Status PayloadFile::ReadRaw(size_t i, uint64_t offset, ByteSpan out) const {
  if (out.empty()) return OkStatus();
  return source_->Read(data_offset_ + ranges_[i].blob_begin + offset, out);
}

ByteView PayloadFile::MappedRaw(size_t i, uint64_t offset, uint64_t bytes) const {
  if (mapped_.empty()) return {};
  return mapped_.subspan(data_offset_ + ranges_[i].blob_begin + offset, bytes);
}

StatusOr<std::unique_ptr<PayloadView>> PayloadView::Make(
    const kernels::KernelTable& kernels, std::vector<std::shared_ptr<const PayloadFile>> files,
    const ViewSource* base, const std::vector<TensorRange>& owned) {
  if (files.empty()) return InvalidArgument("a payload without files");
  const PayloadFile& first = *files.front();
  if ((first.info().role == PayloadRole::kDelta) != (base != nullptr)) {
    return InvalidArgument("a delta needs a base, an anchor has none");
  }
  if (base) {
    PULSE_RETURN_IF_ERROR(
        RequireSameSchema(base->schema(), "the base", first.schema(), "the delta"));
  }
  std::unique_ptr<PayloadView> view(new PayloadView(kernels, base));
  for (const auto& file : files) {
    if (!SameInfo(file->info(), first.info()) || !(file->schema() == first.schema())) {
      return DataLoss("the parts of version {} do not belong together", first.info().target);
    }
    for (size_t i = 0; i < file->ranges().size(); ++i) {
      view->parts_.push_back({file->ranges()[i].range, file.get(), i});
    }
  }
  std::ranges::sort(view->parts_, {}, &Part::range);
  std::vector<TensorRange> ranges;
  for (const Part& part : view->parts_) ranges.push_back(part.range);
  const Status disjoint = CheckRuns(first.schema(), ranges);
  const std::vector<TensorRange> required =
      owned.empty() ? WholeTensors(first.schema()) : MergeAdjacent(owned);
  if (!disjoint.ok() || MergeAdjacent(ranges) != required) {
    return DataLoss("the parts of version {} do not cover the model exactly once",
                    first.info().target);
  }
  view->files_ = std::move(files);
  return view;
}

std::span<const PayloadView::Part> PayloadView::PartsOf(const TensorRange& range) const {
  const auto begin = std::ranges::lower_bound(
      parts_, range,
      [](const TensorRange& part, const TensorRange& wanted) {
        return part.tensor != wanted.tensor ? part.tensor < wanted.tensor
                                            : part.end <= wanted.begin;
      },
      &Part::range);
  auto end = begin;
  while (end != parts_.end() && end->range.tensor == range.tensor && end->range.begin < range.end)
    ++end;
  return {begin, end};
}

StatusOr<ByteView> PayloadView::Read(const TensorRange& range, Bytes& scratch) const {
  if (range.bytes() == 0) return ByteView();
  return base_ ? ReadDelta(range, scratch) : ReadAnchor(range, scratch);
}

StatusOr<ByteView> PayloadView::ReadAnchor(const TensorRange& range, Bytes& scratch) const {
  const std::span<const Part> parts = PartsOf(range);
  if (parts.size() == 1) {
    const Part& part = parts.front();
    const ByteView direct =
        part.file->MappedRaw(part.index, range.begin - part.range.begin, range.bytes());
    if (!direct.empty()) return direct;
  }
  scratch.resize(range.bytes());
  for (const Part& part : parts) {
    const uint64_t begin = std::max(range.begin, part.range.begin);
    const uint64_t end = std::min(range.end, part.range.end);
    PULSE_RETURN_IF_ERROR(
        part.file->ReadRaw(part.index, begin - part.range.begin,
                           ByteSpan(scratch).subspan(begin - range.begin, end - begin)));
  }
  return ByteView(scratch);
}

// A blob changes a whole range, so the whole cell is made and the wanted part returned.
StatusOr<ByteView> PayloadView::ReadDelta(const TensorRange& range, Bytes& scratch) const {
  const uint64_t cell_begin = range.begin / kCellBytes * kCellBytes;
  const TensorRange cell = {
      range.tensor, cell_begin,
      std::min(cell_begin + kCellBytes, schema().tensors()[range.tensor].bytes())};
  const std::span<const Part> parts = PartsOf(cell);
  PULSE_ASSIGN_OR_RETURN(ByteView bytes, base_->Read(cell, scratch));
  const bool same = std::ranges::all_of(parts, [](const Part& part) {
    return part.file->ranges()[part.index].codec == RangeCodec::kSame;
  });
  if (!same) {
    MoveInto(bytes, scratch);
    for (const Part& part : parts) {
      PULSE_RETURN_IF_ERROR(part.file->Apply(
          kernels_, part.index,
          ByteSpan(scratch).subspan(part.range.begin - cell.begin, part.range.bytes())));
    }
    bytes = scratch;
  }
  return bytes.subspan(range.begin - cell.begin, range.bytes());
}

Status PayloadView::CheckDigests(const ViewDigests& rebuilt) const {
  const PayloadInfo& said = info();
  if (rebuilt.view == said.target_digest) return OkStatus();
  for (size_t i = 0; i < said.tensor_digests.size(); ++i) {
    if (rebuilt.tensors[i] != said.tensor_digests[i]) {
      return DataLoss("tensor \"{}\" was rebuilt with digest {}, expected {}",
                      schema().tensors()[i].name, rebuilt.tensors[i].Hex(),
                      said.tensor_digests[i].Hex());
    }
  }
  return DataLoss("the view was rebuilt with digest {}, expected {}", rebuilt.view.Hex(),
                  said.target_digest.Hex());
}

}  // namespace pulse
