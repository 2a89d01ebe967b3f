// DecodeSparseUpdate takes any bytes: an error, or a valid update that has no other spelling.
//
// Input: a byte whose lowest bit says how the rest is read: as coded bytes, or as the plain
// sections of one block, which the fuzzer's mutations would seldom reach through zstd.
#include "codec/sparse_codec.h"
#include "fuzz_input.h"

namespace pulse {
namespace {

constexpr uint64_t kMostElements = 2 * kSparseBlockElements;

// The decoded update encoded again; nothing if the decoder refused.
Bytes DecodeAndEncode(ByteView bytes, uint64_t elements) {
  const auto update = DecodeSparseUpdate(bytes, elements);
  if (!update.ok()) {
    fuzz::Check(update.status().code() == absl::StatusCode::kDataLoss, "a refusal is kDataLoss");
    return {};
  }
  fuzz::Check(Validate(*update).ok(), "what is decoded is valid");
  return EncodeSparseUpdate(*update);
}

void TryCodedBytes(ByteView bytes) {
  const uint64_t elements = bytes.size() < 16 ? 0 : LoadLittle<uint64_t>(&bytes[8]);
  const Bytes again = DecodeAndEncode(bytes, elements <= kMostElements ? elements : 10);
  if (!again.empty()) {
    fuzz::Check(handmade::Unpack(again) == handmade::Unpack(bytes), "one update, one spelling");
  }
}

void TrySections(fuzz::Input input) {
  const ContainerHeader header{.codec = CodecId::kSparseUpdateFast,
                               .word_bytes = 4,
                               .elements = uint64_t{1} + input.Take<uint16_t>() % 4096};
  const Bytes bytes = handmade::Pack(header, {input.TakeBlock()});
  const Bytes again = DecodeAndEncode(bytes, header.elements);
  if (!again.empty()) fuzz::Check(again == bytes, "one update, one spelling");
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
