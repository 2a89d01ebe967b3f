// The folders of versions that slime and miles write, and SGLang (/pull_weights) and vLLM apply.
//
//   <prefix>weight_v%06d/model-%05d-of-%05d.safetensors   per changed tensor a zstd frame, as U8
//   <prefix>weight_v%06d/model.safetensors.index.json     what they are; written last
//
// Version 0 is the receiver's own model. A version without "delta_encoding" is a full checkpoint.
// docs/format.md has the tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sync/foreign/format.h"

namespace pulse {

std::unique_ptr<ForeignFormat> MakeHfDeltaDir();

// How a change is laid out before zstd.
enum class HfEncoding {
  kOverwrite,  // u32 count, count u32 byte positions, count new bytes
  kXor,        // old XOR new, as long as the tensor
};

inline constexpr std::string_view kOverwriteName = "overwrite";
inline constexpr std::string_view kXorName = "xor";
inline constexpr std::string_view kHfIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kHfSingleName = "model.safetensors";
// In the index beside the format's own metadata; others ignore them.
inline constexpr char kHfBaseDigestKey[] = "pulse.base_digest";
inline constexpr char kHfTargetDigestKey[] = "pulse.target_digest";

// hf_delta_read.cc: mark.key is the folder, ending in "/". mark.full is only found out here.
StatusOr<std::unique_ptr<const ForeignVersion>> OpenHfVersion(Store& store, const ForeignMark& mark,
                                                              const ForeignReadOptions& options);

// hf_delta_write.cc: as ForeignFormat::Encode.
StatusOr<std::unique_ptr<EncodedForeignVersion>> EncodeHfDelta(HfEncoding encoding,
                                                               const ViewSource& before,
                                                               const ViewSource& after,
                                                               const ForeignEncodeOptions& options);
std::unique_ptr<EncodedForeignVersion> EncodeHfFull(const ViewSource& after);

}  // namespace pulse
