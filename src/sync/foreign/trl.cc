#include "sync/foreign/trl.h"

#include <algorithm>
#include <limits>

#include "sync/foreign/changes.h"
#include "sync/foreign/step_files.h"

namespace pulse {
namespace {

constexpr TrlLayout kV1 = {"trl-v1", ".indices", ".values", true};
constexpr TrlLayout kV3 = {"trl-v3", ".idx", ".val", false};
constexpr std::string_view kGapDelta = "gap_delta";
constexpr std::string_view kRaw = "raw";

// Positions are signed 32-bit numbers of elements.
constexpr uint64_t kMaxElements = std::numeric_limits<int32_t>::max();

constexpr std::string_view kFileEnd = ".safetensors";

std::string FolderOf(bool full) {
  return full ? "anchors/" : "deltas/";
}

class Trl final : public ForeignFormat {
 public:
  Trl(const TrlLayout& layout, std::vector<std::string_view> encodings)
      : layout_(layout), encodings_(std::move(encodings)) {}

  std::string_view name() const override { return layout_.name; }
  std::vector<std::string_view> encodings() const override { return encodings_; }
  uint64_t first_number() const override { return 1; }
  bool full_beside_delta() const override { return true; }

  StatusOr<std::vector<ForeignMark>> List(Store& store, const std::string& prefix,
                                          uint64_t after) const override {
    std::vector<ForeignMark> marks;
    for (const bool full : {false, true}) {
      const std::string start = fmt::format("{}{}step_", prefix, FolderOf(full));
      PULSE_ASSIGN_OR_RETURN(const ListPage page,
                             ListAbove(store, start, after, /*delimited=*/false));
      for (const ObjectInfo& object : page.objects) {
        const std::string_view name = std::string_view(object.key).substr(start.size());
        if (!name.ends_with(kFileEnd)) continue;
        const auto number = FromSixDigits(name.substr(0, name.size() - kFileEnd.size()));
        if (number && *number > after) marks.push_back({*number, full, object.key});
      }
    }
    std::ranges::sort(marks, {}, [](const ForeignMark& m) { return std::pair(m.number, m.full); });
    return marks;
  }

  StatusOr<bool> IsFull(Store& /*store*/, const ForeignMark& mark) const override {
    return *mark.full;
  }

  StatusOr<std::unique_ptr<const ForeignVersion>> Open(
      Store& store, const ForeignMark& mark, const ForeignReadOptions& /*options*/) const override {
    PULSE_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(mark.key));
    PULSE_ASSIGN_OR_RETURN(
        auto file,
        TensorFile::Open(std::make_shared<ObjectSource>(store, mark.key, info.bytes), mark.key));
    auto version = OpenTrlVersion(layout_, std::move(file), mark);
    PULSE_RETURN_IF_ERROR(Annotate(version.status(), mark.key));
    return version;
  }

  Status CanCarryChange(const TensorSpec& spec, std::string_view /*encoding*/) const override {
    if (spec.dtype != DType::kBF16) {
      return Unimplemented("it is {}, and values are BF16", NameOf(spec.dtype));
    }
    if (spec.elements() > kMaxElements) {
      return Unimplemented("it has {} elements, and positions reach {}", spec.elements(),
                           kMaxElements);
    }
    return OkStatus();
  }

  StatusOr<std::unique_ptr<EncodedForeignVersion>> Encode(
      const ViewSource* before, const ViewSource& after, std::string_view encoding,
      const ForeignEncodeOptions& options) const override {
    if (before == nullptr) return EncodeTrlAnchor(layout_, after);
    PULSE_RETURN_IF_ERROR(CheckCarried(*this, encoding, *before, after));
    const bool gaps = !encodings_.empty() && encoding != kRaw;
    return EncodeTrlDelta(layout_, gaps, *before, after, options);
  }

 private:
  const TrlLayout& layout_;
  std::vector<std::string_view> encodings_;
};

}  // namespace

std::unique_ptr<ForeignFormat> MakeTrlV1() {
  return std::make_unique<Trl>(kV1, std::vector<std::string_view>());
}

std::unique_ptr<ForeignFormat> MakeTrlV3() {
  // Gaps first: 16 bits where plain positions take 32.
  return std::make_unique<Trl>(kV3, std::vector<std::string_view>{kGapDelta, kRaw});
}

}  // namespace pulse
