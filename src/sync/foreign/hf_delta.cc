#include "sync/foreign/hf_delta.h"

#include <algorithm>

#include "sync/foreign/changes.h"
#include "sync/foreign/step_files.h"

namespace pulse {
namespace {

// Positions are 32-bit numbers of bytes.
constexpr uint64_t kOverwriteBytes = uint64_t{1} << 32;

constexpr std::string_view kFolderStart = "weight_v";

StatusOr<bool> IsThere(Store& store, const std::string& key) {
  const auto info = store.Stat(key);
  if (absl::IsNotFound(info.status())) return false;
  PULSE_RETURN_IF_ERROR(info.status());
  return true;
}

// Whether a folder has what is written last.
StatusOr<bool> IsComplete(Store& store, const std::string& folder) {
  PULSE_ASSIGN_OR_RETURN(const bool index,
                         IsThere(store, fmt::format("{}{}", folder, kHfIndexName)));
  if (index) return true;
  return IsThere(store, fmt::format("{}{}", folder, kHfSingleName));
}

class HfDeltaDir final : public ForeignFormat {
 public:
  std::string_view name() const override { return "hf-delta-dir"; }
  // Overwriting twice does no harm, as XOR would.
  std::vector<std::string_view> encodings() const override { return {kOverwriteName, kXorName}; }
  uint64_t first_number() const override { return 0; }
  bool full_beside_delta() const override { return false; }

  StatusOr<std::vector<ForeignMark>> List(Store& store, const std::string& prefix,
                                          uint64_t after) const override {
    const std::string start = fmt::format("{}{}", prefix, kFolderStart);
    PULSE_ASSIGN_OR_RETURN(const ListPage page, ListAbove(store, start, after, /*delimited=*/true));
    std::vector<ForeignMark> marks;
    for (const std::string& folder : page.prefixes) {
      std::string_view digits = std::string_view(folder).substr(start.size());
      digits.remove_suffix(1);
      const auto number = FromSixDigits(digits);
      if (number && *number > after) marks.push_back({*number, std::nullopt, folder});
    }
    // Versions are written in order, so only the last can be unfinished.
    while (!marks.empty()) {
      PULSE_ASSIGN_OR_RETURN(const bool complete, IsComplete(store, marks.back().key));
      if (complete) break;
      marks.pop_back();
    }
    return marks;
  }

  StatusOr<bool> IsFull(Store& store, const ForeignMark& mark) const override {
    PULSE_ASSIGN_OR_RETURN(const auto version, Open(store, mark, {}));
    return version->full();
  }

  StatusOr<std::unique_ptr<const ForeignVersion>> Open(
      Store& store, const ForeignMark& mark, const ForeignReadOptions& options) const override {
    auto version = OpenHfVersion(store, mark, options);
    PULSE_RETURN_IF_ERROR(Annotate(version.status(), mark.key));
    return version;
  }

  Status CanCarryChange(const TensorSpec& spec, std::string_view encoding) const override {
    if (encoding == kXorName || spec.bytes() < kOverwriteBytes) return OkStatus();
    return Unimplemented("it has {} bytes, and overwrite reaches 4 GiB: use {}:{}", spec.bytes(),
                         name(), kXorName);
  }

  StatusOr<std::unique_ptr<EncodedForeignVersion>> Encode(
      const ViewSource* before, const ViewSource& after, std::string_view encoding,
      const ForeignEncodeOptions& options) const override {
    if (before == nullptr) return EncodeHfFull(after);
    PULSE_RETURN_IF_ERROR(CheckCarried(*this, encoding, *before, after));
    return EncodeHfDelta(encoding == kXorName ? HfEncoding::kXor : HfEncoding::kOverwrite, *before,
                         after, options);
  }
};

}  // namespace

std::unique_ptr<ForeignFormat> MakeHfDeltaDir() {
  return std::make_unique<HfDeltaDir>();
}

}  // namespace pulse
