#include "sync/master_view.h"

namespace pulse {

StatusOr<MasterView> MasterView::Make(const kernels::KernelTable& kernels,
                                      const ModelSchema& schema, std::span<const float> weights) {
  if (weights.size() != schema.elements()) {
    return InvalidArgument("{} master weights for a schema of {} elements", weights.size(),
                           schema.elements());
  }
  for (const TensorSpec& spec : schema.tensors()) {
    if (spec.dtype != DType::kBF16 && spec.dtype != DType::kF32) {
      return Unimplemented("tensor \"{}\": FP32 masters can be viewed as BF16 or F32, not as {}",
                           spec.name, NameOf(spec.dtype));
    }
  }
  return MasterView(kernels, schema, weights);
}

StatusOr<ByteView> MasterView::Read(const TensorRange& range, Bytes& scratch) const {
  const DType dtype = schema_->tensors()[range.tensor].dtype;
  const size_t width = SizeOf(dtype);
  const std::span<const float> in =
      weights_.subspan(schema_->offset(range.tensor) + range.begin / width, range.bytes() / width);
  if (dtype == DType::kF32) return AsBytes(in);
  scratch.resize(range.bytes());
  // A vector's buffer is aligned for any element.
  cast_(in, {reinterpret_cast<uint16_t*>(scratch.data()), in.size()});
  return ByteView(scratch);
}

}  // namespace pulse
