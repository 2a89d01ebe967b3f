// TRL's two incompatible layouts of one idea: per changed tensor, flat positions and BF16 values.
//
//   <prefix>anchors/step_%06d.safetensors   every BF16 parameter under its own name
//   <prefix>deltas/step_%06d.safetensors    positions and values of what changed
//
// Both say format=sparse_weight_patch and version=1; they differ in the names of tensors and in
// where it is said which have changed. docs/format.md has the tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sync/foreign/format.h"
#include "sync/foreign/tensor_file.h"

namespace pulse {

std::unique_ptr<ForeignFormat> MakeTrlV1();
std::unique_ptr<ForeignFormat> MakeTrlV3();

// What tells the two apart.
struct TrlLayout {
  std::string_view name;
  std::string_view positions_suffix;
  std::string_view values_suffix;
  bool lists_changed_params;  // else the tensors themselves say which have changed
};

// Metadata of our own, which both systems' readers ignore.
inline constexpr char kTrlBaseDigestKey[] = "pulse.base_digest";
inline constexpr char kTrlTargetDigestKey[] = "pulse.target_digest";
// JSON list of the tensors that an anchor leaves out, since they are not BF16.
inline constexpr char kTrlLeftOutKey[] = "pulse.left_out";

// trl_read.cc: the version in a file. mark.full says what it must be.
StatusOr<std::unique_ptr<const ForeignVersion>> OpenTrlVersion(
    const TrlLayout& layout, std::shared_ptr<const TensorFile> file, const ForeignMark& mark);

// trl_write.cc: as ForeignFormat::Encode. gaps: positions as gap_delta.
StatusOr<std::unique_ptr<EncodedForeignVersion>> EncodeTrlDelta(
    const TrlLayout& layout, bool gaps, const ViewSource& before, const ViewSource& after,
    const ForeignEncodeOptions& options);
std::unique_ptr<EncodedForeignVersion> EncodeTrlAnchor(const TrlLayout& layout,
                                                       const ViewSource& after);

}  // namespace pulse
