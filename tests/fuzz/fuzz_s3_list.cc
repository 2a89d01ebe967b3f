// The answer to ListObjectsV2 takes any bytes: an error, or names that were in it.
#include "fuzz_input.h"
#include "store/remote/s3_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pulse;
  const auto result = ParseS3ListResult({data, size});
  if (!result.ok()) return 0;
  size_t names = result->prefixes.size();
  for (const ObjectInfo& object : result->objects) names += object.key.size() > 0;
  fuzz::Check(names <= size, "no more names than bytes");
  for (const ObjectInfo& object : result->objects) {
    fuzz::Check(object.modified_unix_ns >= 0, "no time before 1970");
  }
  return 0;
}
