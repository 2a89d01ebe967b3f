// A zstd frame of any bytes, read in pieces and without the walls of a file around it, so that
// mutations reach the decoder: an error, or as many bytes as were asked for.
#include "fuzz_input.h"
#include "sync/foreign/zstd_stream.h"

namespace pulse {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{8} << 20;

void Try(size_t want, size_t piece, ByteView frame) {
  const std::vector<TensorSpec> specs = {{"w", DType::kU8, {frame.size()}}};
  Bytes file = *WriteSafetensorsHeader(specs, {});
  file.insert(file.end(), frame.begin(), frame.end());
  const auto opened = *TensorFile::Open(std::make_shared<OwnedSource>(std::move(file)), "file");
  FrameReader reader(EntryReader(opened, opened->entries()[0]), kWindowBytes);
  Bytes out(piece);
  for (size_t left = want; left > 0;) {
    const size_t size = std::min(left, piece);
    if (!reader.Fill(ByteSpan(out).first(size)).ok()) return;
    left -= size;
  }
  (void)reader.Finish().ok();
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  const auto want = input.Take<uint16_t>();
  const auto piece = input.Take<uint8_t>();
  pulse::Try(want, size_t{piece} + 1, input.TakeRest());
  return 0;
}
