// ApplySmallDelta takes any bytes: an error, or exactly the change whose one spelling they are.
//
// Input: a byte that picks the type and how the rest is read: as coded bytes, or as the payload of
// one block behind a sound header.
#include "codec/container.h"
#include "codec/small_delta.h"
#include "fuzz_input.h"

namespace pulse {
namespace {

constexpr DType kTypes[] = {DType::kBF16, DType::kF8E4M3, DType::kF32, DType::kI64};
constexpr uint64_t kMostBytes = uint64_t{1} << 17;

// Words of all exponents, small ones more often.
Bytes Before(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 167 + (i >> 8) + (i % 3) * (i >> 5));
  }
  return bytes;
}

void Try(ByteView delta, DType dtype, uint64_t elements) {
  static const kernels::KernelTable kernels = kernels::ChooseKernels("auto").value();
  const Bytes before = Before(elements * SizeOf(dtype));
  Bytes after(before.size());
  const Status status = ApplySmallDelta(kernels, delta, before, dtype, after);
  if (!status.ok()) {
    fuzz::Check(status.code() == absl::StatusCode::kDataLoss, "a refusal is kDataLoss");
    return;
  }
  Bytes in_place = before;
  fuzz::Check(ApplySmallDelta(kernels, delta, in_place, dtype, in_place).ok() && in_place == after,
              "in place gives the same");
  const Bytes again = EncodeSmallDelta(kernels, before, after, dtype)->bytes;
  fuzz::Check(std::equal(again.begin(), again.end(), delta.begin(), delta.end()),
              "one change, one spelling");
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pulse;
  fuzz::Input input(data, size);
  const auto how = input.Take<uint8_t>();
  const DType dtype = kTypes[how >> 1 & 3];
  if ((how & 1) == 0) {
    const ByteView delta = input.TakeRest();
    const uint64_t elements = delta.size() < 16 ? 0 : LoadLittle<uint64_t>(&delta[8]);
    Try(delta, dtype, elements <= kMostBytes / SizeOf(dtype) ? elements : 10);
    return 0;
  }
  const uint64_t elements = uint64_t{1} + input.Take<uint16_t>() % 16384;
  const uint32_t entries = 1 + input.Take<uint16_t>() % static_cast<uint32_t>(elements);
  const ByteView payload = input.TakeRest();
  if (payload.empty()) return 0;
  ContainerWriter writer({.codec = CodecId::kWordDeltaSmall,
                          .word_bytes = static_cast<uint8_t>(SizeOf(dtype)),
                          .elements = elements});
  writer.bytes().insert(writer.bytes().end(), payload.begin(), payload.end());
  writer.CloseBlock(entries);
  Try(writer.Finish(), dtype, elements);
  return 0;
}
