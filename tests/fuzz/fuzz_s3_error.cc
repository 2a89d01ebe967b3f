// Error bodies take any bytes, and what goes into messages is short, printable, and of one line.
#include <algorithm>

#include "fuzz_input.h"
#include "store/remote/s3_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pulse;
  const S3Error error = ParseS3Error(AsText({data, size}));
  for (const std::string& text : {error.code, error.message, error.region}) {
    fuzz::Check(text.size() <= 300, "short");
    fuzz::Check(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
                "printable");
  }
  const auto id = ParseS3Field({data, size}, "UploadId");
  fuzz::Check(!id.ok() || !id->empty(), "an upload has an id");
  return 0;
}
