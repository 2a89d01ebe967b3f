// The JSON documents of a bucket and of a follower take any bytes: an error, or a document that is
// spelled in exactly these bytes.
#include "fuzz_input.h"
#include "sync/head.h"
#include "sync/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pulse;
  const ByteView bytes(data, size);
  if (const auto head = ParseHead(bytes, "main"); head.ok()) {
    fuzz::Check(SerializeHead(*head) == AsText(bytes), "one head, one spelling");
  }
  if (const auto manifest = ParseManifest(bytes); manifest.ok()) {
    fuzz::Check(SerializeManifest(*manifest) == AsText(bytes), "one manifest, one spelling");
  }
  return 0;
}
