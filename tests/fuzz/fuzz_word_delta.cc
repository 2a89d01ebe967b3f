// ApplyWordDelta takes any bytes: an error, or exactly the change that they spell.
//
// Input: a byte whose lowest bit says how the rest is read: as coded bytes, or as the plain
// sections of one block, which the fuzzer's mutations would seldom reach through zstd.
#include <bit>

#include "codec/word_delta.h"
#include "fuzz_input.h"

namespace pulse {
namespace {

// Enough for two blocks of single bytes.
constexpr uint64_t kMostBytes = kWordDeltaBlockElements + 64;

Bytes Before(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 167 + (i >> 8));
  return bytes;
}

// The rebuilt array and its change encoded again; nothing if the decoder refused.
Bytes ApplyAndEncode(ByteView delta, size_t word_bytes, uint64_t elements) {
  static const kernels::KernelTable kernels = kernels::ChooseKernels("reference").value();
  const Bytes before = Before(elements * word_bytes);
  Bytes after(before.size());
  const Status status = ApplyWordDelta(kernels, delta, before, word_bytes, after);
  if (!status.ok()) {
    fuzz::Check(status.code() == absl::StatusCode::kDataLoss, "a refusal is kDataLoss");
    return {};
  }
  Bytes in_place = before;
  fuzz::Check(
      ApplyWordDelta(kernels, delta, in_place, word_bytes, in_place).ok() && in_place == after,
      "in place gives the same");
  return EncodeWordDelta(kernels, before, after, word_bytes)->bytes;
}

void TryCodedBytes(ByteView delta) {
  const uint64_t elements = delta.size() < 16 ? 0 : LoadLittle<uint64_t>(&delta[8]);
  const size_t width = delta.size() < 6 ? 0 : delta[5];
  const size_t word_bytes = std::has_single_bit(width) && width <= 8 ? width : 2;
  const Bytes again =
      ApplyAndEncode(delta, word_bytes, elements <= kMostBytes / word_bytes ? elements : 10);
  if (!again.empty()) {
    fuzz::Check(handmade::Unpack(again) == handmade::Unpack(delta), "one change, one spelling");
  }
}

void TrySections(fuzz::Input input) {
  const ContainerHeader header{.codec = CodecId::kWordDeltaFast,
                               .word_bytes = static_cast<uint8_t>(1 << (input.Take<uint8_t>() & 3)),
                               .elements = uint64_t{1} + input.Take<uint16_t>() % 4096};
  const Bytes delta = handmade::Pack(header, {input.TakeBlock()});
  const Bytes again = ApplyAndEncode(delta, header.word_bytes, header.elements);
  if (!again.empty()) fuzz::Check(again == delta, "one change, one spelling");
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  if ((input.Take<uint8_t>() & 1) == 0) {
    pulse::TryCodedBytes(input.TakeRest());
  } else {
    pulse::TrySections(input);
  }
  return 0;
}
