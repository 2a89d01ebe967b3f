#include "sync/master_view.h"

namespace pulse {

StatusOr<MasterView> MasterView::Make(const kernels::KernelTable& kernels,
                                      const ModelSchema& schema, std::span<const float> weights) {
  if (weights.size() != schema.elements()) {
    return InvalidArgument("{} master weights for a schema of {} elements", weights.size(),
                           schema.elements());
  }
  return OfShard(kernels, schema, weights, 0);
}

StatusOr<MasterView> MasterView::OfShard(const kernels::KernelTable& kernels,
                                         const ModelSchema& schema, std::span<const float> weights,
                                         uint64_t begin) {
  for (const TensorSpec& spec : schema.tensors()) {
    if (spec.dtype != DType::kBF16 && spec.dtype != DType::kF32) {
      return Unimplemented("tensor \"{}\": FP32 masters can be viewed as BF16 or F32, not as {}",
                           spec.name, NameOf(spec.dtype));
    }
  }
  return MasterView(kernels, schema, weights, begin);
}

StatusOr<ByteView> MasterView::Read(const TensorRange& range, Bytes& scratch) const {
  const DType dtype = schema_->tensors()[range.tensor].dtype;
  const size_t width = SizeOf(dtype);
  const uint64_t begin = schema_->offset(range.tensor) + range.begin / width;
  const uint64_t length = range.bytes() / width;
  if (begin < begin_ || begin + length > begin_ + weights_.size()) {
    return InvalidArgument("elements {} to {} are not in the shard from {} to {}", begin,
                           begin + length, begin_, begin_ + weights_.size());
  }
  const std::span<const float> in = weights_.subspan(begin - begin_, length);
  if (dtype == DType::kF32) return AsBytes(in);
  scratch.resize(range.bytes());
  // A vector's buffer is aligned for any element.
  cast_(in, {reinterpret_cast<uint16_t*>(scratch.data()), in.size()});
  return ByteView(scratch);
}

}  // namespace pulse
