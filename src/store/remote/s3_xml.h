// What S3 servers answer in XML. Every parser takes any bytes: nesting, text and results are
// bounded, document types are refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "store/store.h"

namespace pulse {

// <Error>. Empty where the body is something else, as proxies send it.
struct S3Error {
  std::string code;     // "NoSuchKey"
  std::string message;  // printable, at most 300 bytes
  std::string region;   // where the bucket is, in errors about that
};
S3Error ParseS3Error(std::string_view body);

// <ListBucketResult> of ListObjectsV2, names as the server spells them once decoded.
struct S3ListResult {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> prefixes;
  bool truncated = false;
};
// kDataLoss for anything else.
StatusOr<S3ListResult> ParseS3ListResult(ByteView body);

// The text of <name> directly in the root: an upload's id, a finished upload's etag. kDataLoss if
// it is not there, or the root is an <Error>. (Servers don't agree on the root's name.)
StatusOr<std::string> ParseS3Field(ByteView body, std::string_view name);

// "2026-01-31T08:15:00.000Z" in nanoseconds since 1970; 0 if it is no time.
int64_t ParseS3Time(std::string_view text);

}  // namespace pulse
