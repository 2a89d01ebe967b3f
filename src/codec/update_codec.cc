#include "codec/update_codec.h"

#include <array>

#include "codec/sparse_codec.h"
#include "codec/sparse_small.h"

namespace pulse {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"fast", "small"};

}  // namespace

std::string_view NameOf(UpdateCodecName name) {
  return kNames[static_cast<size_t>(name)];
}

StatusOr<UpdateCodecName> UpdateCodecFromName(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<UpdateCodecName>(i);
  }
  return InvalidArgument("codec is \"{}\"; expected {}", name, fmt::join(kNames, ", "));
}

ContainerHeader UpdateCodec::HeaderFor(uint64_t elements) const {
  const bool fast = name == UpdateCodecName::kFast;
  return {.codec = fast ? CodecId::kSparseUpdateFast : CodecId::kSparseUpdateSmall,
          .word_bytes = sizeof(float),
          .elements = elements};
}

Bytes UpdateCodec::Encode(const kernels::KernelTable& kernels, const SparseUpdateView& update,
                          std::span<const float> theta, ClassesOfBlocks* classes) const {
  if (name == UpdateCodecName::kFast) return EncodeSparseUpdate(update);
  return EncodeSparseUpdateSmall(kernels, update, theta, coarser, classes);
}

StatusOr<SparseUpdate> UpdateCodec::Decode(const kernels::KernelTable& kernels, ByteView bytes,
                                           uint64_t elements, std::span<const float> theta) const {
  if (name == UpdateCodecName::kFast) return DecodeSparseUpdate(bytes, elements);
  return DecodeSparseUpdateSmall(kernels, bytes, theta, coarser);
}

}  // namespace pulse
