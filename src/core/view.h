// The bytes of a whole model, tensor by tensor, without owning them.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "core/schema.h"

namespace pulse {

// tensors[i] holds the schema's tensor i: exactly schema->tensors()[i].bytes() bytes, which may lie
// anywhere (a mapped file, a flat array) and need no alignment. Both must outlive the view.
struct ModelView {
  const ModelSchema* schema = nullptr;
  std::vector<ByteView> tensors;
};

// Splits one contiguous buffer of schema.bytes() bytes, tensors in schema order without padding.
inline ModelView SplitContiguous(const ModelSchema& schema, ByteView bytes) {
  ModelView view{&schema, {}};
  view.tensors.reserve(schema.tensors().size());
  size_t at = 0;
  for (const TensorSpec& spec : schema.tensors()) {
    view.tensors.push_back(bytes.subspan(at, spec.bytes()));
    at += spec.bytes();
  }
  return view;
}

}  // namespace pulse
