// Writing TRL's files.
#include <algorithm>
#include <limits>

#include "sync/checkpoint.h"
#include "sync/foreign/changes.h"
#include "sync/foreign/joined_source.h"
#include "sync/foreign/step_files.h"
#include "sync/foreign/trl.h"
#include "sync/payload_file_source.h"
#include "sync/strict_json.h"

namespace pulse {
namespace {

using Metadata = std::map<std::string, std::string>;

// What is scanned before its positions and values go to their spools: bounds the buffers between.
constexpr size_t kSliceBytes = size_t{1} << 20;

struct Counts {
  uint64_t params = 0;
  uint64_t changed = 0;
  uint64_t elements = 0;  // of the tensors in the file
};

Metadata CommonMetadata(bool sparse, const Counts& counts, const ForeignLabels& labels) {
  const double share = counts.elements == 0 ? 0
                                            : static_cast<double>(counts.changed) /
                                                  static_cast<double>(counts.elements);
  Metadata metadata = {{"format", "sparse_weight_patch"},
                       {"version", "1"},
                       {"sparse", sparse ? "True" : "False"},
                       {"model_version", std::to_string(labels.number)},
                       {"num_changed_params", std::to_string(counts.params)},
                       {"total_changed_elements", std::to_string(counts.changed)},
                       {"total_elements", std::to_string(counts.elements)},
                       {"sparsity", fmt::format("{}", sparse ? 1 - share : 0.0)}};
  if (sparse && labels.base_digest) metadata[kTrlBaseDigestKey] = labels.base_digest->Hex();
  if (labels.target_digest) metadata[kTrlTargetDigestKey] = labels.target_digest->Hex();
  return metadata;
}

StatusOr<ForeignObject> MakeObject(std::string_view folder, uint64_t number,
                                   const std::vector<TensorSpec>& specs, const Metadata& metadata,
                                   std::shared_ptr<const ByteSource> data) {
  PULSE_ASSIGN_OR_RETURN(const std::string digits, SixDigits(number));
  PULSE_ASSIGN_OR_RETURN(Bytes header, WriteSafetensorsHeader(specs, metadata));
  return ForeignObject{fmt::format("{}/step_{}.safetensors", folder, digits),
                       std::make_unique<HeadedSource>(std::move(header), std::move(data))};
}

// One object, as every TRL version has.
StatusOr<std::vector<ForeignObject>> Alone(StatusOr<ForeignObject> object) {
  PULSE_RETURN_IF_ERROR(object.status());
  std::vector<ForeignObject> objects;
  objects.push_back(*std::move(object));
  return objects;
}

std::string NamesJson(const std::vector<std::string>& names) {
  return CanonicalJson(Json(names));
}

class EncodedDelta final : public EncodedForeignVersion {
 public:
  EncodedDelta(const TrlLayout& layout, bool gaps, const ForeignEncodeOptions& options)
      : layout_(layout),
        gaps_(gaps),
        wide_(options.make_spool()),
        narrow_(options.make_spool()),
        values_(options.make_spool()) {}

  // Adds what has changed of a tensor.
  Status Add(TensorPair& pair) {
    uint64_t count = 0;
    uint64_t widest = 0;
    uint64_t next = 0;
    PULSE_RETURN_IF_ERROR(ForEachChange(pair, [&](uint64_t position) {
      ++count;
      widest = std::max(widest, position - next);
      next = position + 1;
    }));
    if (count == 0) return OkStatus();
    const bool narrow = gaps_ && widest <= std::numeric_limits<uint16_t>::max();
    PULSE_RETURN_IF_ERROR(AppendColumns(pair, narrow));
    const std::string& name = pair.spec().name;
    const DType dtype = narrow ? DType::kU16 : gaps_ ? DType::kU32 : DType::kI32;
    (narrow ? narrow_specs_ : wide_specs_)
        .push_back({fmt::format("{}{}", name, layout_.positions_suffix), dtype, {count}});
    value_specs_.push_back(
        {fmt::format("{}{}", name, layout_.values_suffix), DType::kBF16, {count}});
    names_.push_back(name);
    counts_.params += 1;
    counts_.changed += count;
    counts_.elements += pair.spec().elements();
    return OkStatus();
  }

  Status Finish() {
    for (const auto& spool : {wide_, narrow_, values_}) PULSE_RETURN_IF_ERROR(spool->Finish());
    return OkStatus();
  }

  StatusOr<std::vector<ForeignObject>> Objects(const ForeignLabels& labels) const override {
    Metadata metadata = CommonMetadata(/*sparse=*/true, counts_, labels);
    if (layout_.lists_changed_params) {
      metadata["changed_params"] = NamesJson(names_);
    } else {
      metadata["encoding"] = gaps_ ? "gap_delta" : "raw";
    }
    // Widest first, so that every tensor is aligned to its elements.
    std::vector<TensorSpec> specs = wide_specs_;
    specs.insert(specs.end(), narrow_specs_.begin(), narrow_specs_.end());
    specs.insert(specs.end(), value_specs_.begin(), value_specs_.end());
    std::vector<std::shared_ptr<const ByteSource>> parts = {wide_, narrow_, values_};
    return Alone(MakeObject("deltas", labels.number, specs, metadata,
                            std::make_shared<JoinedSource>(std::move(parts))));
  }

 private:
  // take(position) for each element that differs.
  template <typename Take>
  static Status ForEachChange(TensorPair& pair, const Take& take) {
    return pair.ForEachCell([&](uint64_t offset, ByteView before, ByteView after) {
      ForEachDifference<uint16_t>(before, after,
                                  [&](size_t i) { take(offset / sizeof(uint16_t) + i); });
      return OkStatus();
    });
  }

  Status AppendColumns(TensorPair& pair, bool narrow) {
    Spool& positions = narrow ? *narrow_ : *wide_;
    Bytes position_bytes, value_bytes;
    uint64_t next = 0;
    return pair.ForEachCell([&](uint64_t offset, ByteView before, ByteView after) -> Status {
      for (size_t begin = 0; begin < after.size(); begin += kSliceBytes) {
        const size_t size = std::min(kSliceBytes, after.size() - begin);
        const ByteView slice = after.subspan(begin, size);
        position_bytes.clear();
        value_bytes.clear();
        ForEachDifference<uint16_t>(before.subspan(begin, size), slice, [&](size_t i) {
          const uint64_t position = (offset + begin) / sizeof(uint16_t) + i;
          const uint64_t number = gaps_ ? position - next : position;
          next = position + 1;
          if (narrow) {
            AppendLittle(static_cast<uint16_t>(number), position_bytes);
          } else {
            AppendLittle(static_cast<uint32_t>(number), position_bytes);
          }
          AppendLittle(LoadLittle<uint16_t>(slice.data() + i * sizeof(uint16_t)), value_bytes);
        });
        PULSE_RETURN_IF_ERROR(positions.Append(position_bytes));
        PULSE_RETURN_IF_ERROR(values_->Append(value_bytes));
      }
      return OkStatus();
    });
  }

  const TrlLayout& layout_;
  const bool gaps_;
  std::shared_ptr<Spool> wide_, narrow_, values_;  // 32-bit and 16-bit positions, values
  std::vector<TensorSpec> wide_specs_, narrow_specs_, value_specs_;
  std::vector<std::string> names_;
  Counts counts_;
};

class Anchor final : public EncodedForeignVersion {
 public:
  Anchor(const TrlLayout& layout, const ViewSource& view) : layout_(layout), view_(view) {}

  StatusOr<std::vector<ForeignObject>> Objects(const ForeignLabels& labels) const override {
    std::vector<TensorSpec> specs;
    std::vector<TensorRange> runs;
    std::vector<std::string> names, left_out;
    Counts counts;
    const auto& tensors = view_.schema().tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].dtype != DType::kBF16) {
        left_out.push_back(tensors[i].name);
        continue;
      }
      specs.push_back(tensors[i]);
      names.push_back(tensors[i].name);
      runs.push_back({i, 0, tensors[i].bytes()});
      counts.params += 1;
      counts.elements += tensors[i].elements();
    }
    counts.changed = counts.elements;
    Metadata metadata = CommonMetadata(/*sparse=*/false, counts, labels);
    if (layout_.lists_changed_params) {
      metadata["changed_params"] = NamesJson(names);
    } else {
      metadata["encoding"] = "raw";
    }
    if (!left_out.empty()) metadata[kTrlLeftOutKey] = NamesJson(left_out);
    auto aliases = view_.schema().aliases();
    std::erase_if(aliases, [&](const auto& alias) {
      return std::ranges::find(left_out, alias.second) != left_out.end();
    });
    if (!aliases.empty()) metadata[kAliasesKey] = CanonicalJson(Json(aliases));
    return Alone(MakeObject("anchors", labels.number, specs, metadata,
                            std::make_shared<RunsSource>(view_, std::move(runs))));
  }

 private:
  const TrlLayout& layout_;
  const ViewSource& view_;
};

}  // namespace

StatusOr<std::unique_ptr<EncodedForeignVersion>> EncodeTrlDelta(
    const TrlLayout& layout, bool gaps, const ViewSource& before, const ViewSource& after,
    const ForeignEncodeOptions& options) {
  auto delta = std::make_unique<EncodedDelta>(layout, gaps, options);
  uint64_t done = 0;
  const auto& tensors = after.schema().tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dtype == DType::kBF16) {
      TensorPair pair(before, after, i);
      PULSE_RETURN_IF_ERROR(delta->Add(pair));
    }
    done += tensors[i].bytes();
    if (options.progress) options.progress(done);
  }
  PULSE_RETURN_IF_ERROR(delta->Finish());
  return std::unique_ptr<EncodedForeignVersion>(std::move(delta));
}

std::unique_ptr<EncodedForeignVersion> EncodeTrlAnchor(const TrlLayout& layout,
                                                       const ViewSource& after) {
  return std::make_unique<Anchor>(layout, after);
}

}  // namespace pulse
