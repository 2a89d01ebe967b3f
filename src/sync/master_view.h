// The view of FP32 master weights: cast on the fly, cell by cell, so that it never exists as a
// whole.
#pragma once

#include <span>

#include "kernels/kernels.h"
#include "sync/view.h"

namespace pulse {

class MasterView final : public ViewSource {
 public:
  // weights: schema.elements() floats in schema order; they and the schema must outlive the source.
  // A BF16 tensor is rounded to nearest even, an F32 tensor passes through; kUnimplemented for any
  // other dtype.
  static StatusOr<MasterView> Make(const kernels::KernelTable& kernels, const ModelSchema& schema,
                                   std::span<const float> weights);

  // The same of a shard, which begins at element `begin` of the flat array. Read is
  // kInvalidArgument outside of it.
  static StatusOr<MasterView> OfShard(const kernels::KernelTable& kernels,
                                      const ModelSchema& schema, std::span<const float> weights,
                                      uint64_t begin);

  const ModelSchema& schema() const override { return *schema_; }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override;

 private:
  MasterView(const kernels::KernelTable& kernels, const ModelSchema& schema,
             std::span<const float> weights, uint64_t begin)
      : cast_(kernels.cast_to_bf16), schema_(&schema), weights_(weights), begin_(begin) {}

  kernels::CastToBF16Fn cast_;
  const ModelSchema* schema_;
  std::span<const float> weights_;
  uint64_t begin_;
};

}  // namespace pulse
