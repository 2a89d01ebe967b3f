// A checkpoint folder whose index is any bytes: an error, or a view of the file beside it; never a
// path outside the folder.
#include "core/clock.h"
#include "fuzz_input.h"
#include "store/unsynced_filesystem.h"
#include "sync/checkpoint.h"

namespace pulse {
namespace {

void Put(Filesystem& fs, const std::string& path, ByteView bytes) {
  fuzz::Check(WriteFileAtomically(fs, path, bytes).ok(), "the double takes files");
}

void Try(ByteView index) {
  VirtualClock clock;
  UnsyncedFilesystem fs(clock);
  fuzz::Check(fs.CreateDirectories("/model").ok(), "the double takes folders");
  const std::vector<TensorSpec> specs = {{"w", DType::kU8, {4}}};
  Bytes file = WriteSafetensorsHeader(specs, {}).value();
  file.resize(file.size() + 4);
  Put(fs, "/model/a.safetensors", file);
  Put(fs, "/secret.safetensors", file);
  Put(fs, "/model/model.safetensors.index.json", index);
  const auto checkpoint = Checkpoint::Open(fs, "/model");
  if (!checkpoint.ok()) {
    fuzz::Check(checkpoint.status().message().find("secret") == absl::string_view::npos ||
                    checkpoint.status().code() == absl::StatusCode::kDataLoss,
                "a name outside the folder is refused as damage");
    return;
  }
  fuzz::Check((*checkpoint)->schema().tensors().size() == 1, "what the file holds, and no more");
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::Try({data, size});
  return 0;
}
