// The metadata of a payload file, and how its blobs are named. docs/format.md has the layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/schema.h"
#include "sync/patch.h"

namespace pulse {

// A range's blob, where it is not a whole tensor under its own name: "<tensor>#<begin>".
std::string BlobName(const ModelSchema& schema, const TensorRange& range);

bool IsWholeTensor(const ModelSchema& schema, const TensorRange& range);

// ranges: ascending. kInvalidArgument if info.extra has a key of ours.
StatusOr<std::map<std::string, std::string>> WritePayloadMetadata(
    const ModelSchema& schema, const PayloadInfo& info, const std::vector<PayloadRange>& ranges);

struct PayloadMetadata {
  PayloadInfo info;
  ModelSchema schema;
  std::vector<PayloadRange> ranges;  // blob offsets are not filled in
};

// `header`: of the whole file, whose tensors are the schema of an anchor without a table.
// kDataLoss, kUnimplemented.
StatusOr<PayloadMetadata> ReadPayloadMetadata(const SafetensorsHeader& header);

}  // namespace pulse
