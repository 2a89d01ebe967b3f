// DecodeSparseUpdateSmall takes any bytes against any theta: an error, or a valid update that has
// no other spelling.
//
// Input: a byte of flags, 16 bits of elements, a seed of theta; then the payload of one block, or
// (lowest flag 0) whole coded bytes.
#include <bit>

#include "codec/sparse_small.h"
#include "core/rng.h"
#include "fuzz_input.h"
#include "kernels/kernels.h"

namespace pulse {
namespace {

const kernels::KernelTable& Kernels() {
  static const auto table = *kernels::ChooseKernels("auto");
  return table;
}

// Weights of a few binades, or any words at all.
std::vector<float> MakeTheta(uint64_t elements, uint8_t seed) {
  Rng rng(seed, {});
  std::vector<float> theta(elements);
  for (float& t : theta) {
    const uint32_t word = rng.U32();
    const uint32_t exponent = 118 + (word & 3);
    t = std::bit_cast<float>(seed % 2 == 0 ? word : exponent << 23 | (word & 0x807FFFFF));
  }
  return theta;
}

void Try(ByteView bytes, std::span<const float> theta, unsigned coarser) {
  const auto update = DecodeSparseUpdateSmall(Kernels(), bytes, theta, coarser);
  if (!update.ok()) {
    fuzz::Check(update.status().code() == absl::StatusCode::kDataLoss, "a refusal is kDataLoss");
    return;
  }
  fuzz::Check(Validate(*update).ok(), "what is decoded is valid");
  const Bytes again = EncodeSparseUpdateSmall(Kernels(), *update, theta, coarser);
  fuzz::Check(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
              "one update, one spelling");
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  const auto flags = input.Take<uint8_t>();
  const uint64_t elements = uint64_t{1} + input.Take<uint16_t>() % 4096;
  const auto theta = pulse::MakeTheta(elements, input.Take<uint8_t>());
  const unsigned coarser = (flags & 2) != 0 ? 12 : 0;
  if ((flags & 1) == 0) {
    pulse::Try(input.TakeRest(), theta, coarser);
    return 0;
  }
  const auto entries = input.Take<uint16_t>();
  const pulse::ByteView payload = input.TakeRest();
  if (entries > elements || (entries == 0) != payload.empty()) return 0;
  pulse::ContainerWriter writer({.codec = pulse::CodecId::kSparseUpdateSmall,
                                 .word_bytes = sizeof(float),
                                 .elements = elements});
  writer.bytes().insert(writer.bytes().end(), payload.begin(), payload.end());
  writer.CloseBlock(entries);
  pulse::Try(writer.Finish(), theta, coarser);
  return 0;
}
