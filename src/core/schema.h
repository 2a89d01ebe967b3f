// What a model consists of: named tensors with shapes and dtypes, and names that share one tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"

namespace pulse {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<uint64_t> shape;  // empty: a scalar

  uint64_t elements() const;  // product of the shape; 1 for a scalar
  uint64_t bytes() const { return elements() * SizeOf(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Immutable. Tensors stand in ascending byte order of their names, whatever order they came in;
// that order is also the order of a trainer's flat FP32 arrays.
class ModelSchema {
 public:
  // The empty schema: no tensors.
  ModelSchema() = default;

  // aliases: further name -> name of a tensor in `tensors` (tied weights).
  // kInvalidArgument: a duplicate or empty name, an alias to nothing, a name with a control
  // character, or sizes that do not fit 63 bits.
  static StatusOr<ModelSchema> Make(std::vector<TensorSpec> tensors,
                                    std::map<std::string, std::string> aliases = {});

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& aliases() const { return aliases_; }
  uint64_t elements() const { return offsets_.empty() ? 0 : offsets_.back(); }  // of all tensors
  uint64_t bytes() const { return bytes_; }                                     // of all tensors

  // First element of tensor i in the flat array; offset(tensors().size()) == elements().
  uint64_t offset(size_t i) const { return offsets_[i]; }

  // Index of the tensor of that name (aliases are not looked up); kNotFound names it.
  StatusOr<size_t> Find(std::string_view name) const;

  friend bool operator==(const ModelSchema& a, const ModelSchema& b) {
    return a.tensors_ == b.tensors_ && a.aliases_ == b.aliases_;
  }

 private:
  std::vector<TensorSpec> tensors_;
  std::map<std::string, std::string> aliases_;
  std::vector<uint64_t> offsets_ = {0};
  uint64_t bytes_ = 0;
};

// OK if equal; else kFailedPrecondition naming the first tensor that differs and how.
// `left` and `right` name the two sides in the message ("base", "checkpoint model.safetensors").
Status RequireSameSchema(const ModelSchema& a, std::string_view left, const ModelSchema& b,
                         std::string_view right);

}  // namespace pulse
