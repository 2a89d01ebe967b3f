// ParseSafetensorsHeader takes any bytes: an error, or a header that is what it says.
#include "codec/safetensors.h"
#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pulse;
  fuzz::Input input(data, size);
  const uint64_t data_bytes = input.Take<uint16_t>();
  const ByteView json = input.TakeRest();
  const uint64_t file_bytes = kSafetensorsPrefixBytes + json.size() + data_bytes;
  const auto header = ParseSafetensorsHeader(json, file_bytes);
  if (!header.ok()) return 0;
  fuzz::Check(header->file_bytes() == file_bytes, "the tensors fill the file");
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    fuzz::Check(entry.begin == at && entry.end - entry.begin == entry.spec.bytes(), "no holes");
    at = entry.end;
  }
  return 0;
}
