#include "app/device_view.h"

#include <cstring>

#include "codec/small_delta.h"

namespace pulse {
namespace {

constexpr uint64_t kAlignment = 16;  // of one access on the device

}  // namespace

StatusOr<std::unique_ptr<DeviceView>> DeviceView::Make(loco::DeviceArrays& arrays,
                                                       const kernels::KernelTable& host_kernels,
                                                       const ModelSchema& schema, CodecId codec,
                                                       Deadline deadline) {
  for (const TensorSpec& spec : schema.tensors()) {
    if (spec.dtype != DType::kBF16 && spec.dtype != DType::kF32) {
      return Unimplemented("tensor \"{}\": FP32 masters can be viewed as BF16 or F32, not as {}",
                           spec.name, NameOf(spec.dtype));
    }
  }
  std::unique_ptr<DeviceView> view(new DeviceView(arrays, host_kernels, schema, codec));
  PULSE_RETURN_IF_ERROR(Annotate(view->TakeWhole(deadline), "the view on the device"));
  return view;
}

DeviceView::DeviceView(loco::DeviceArrays& arrays, const kernels::KernelTable& host_kernels,
                       const ModelSchema& schema, CodecId codec)
    : arrays_(arrays),
      host_kernels_(host_kernels),
      schema_(schema),
      codec_(codec),
      coder_(arrays.work(), arrays.kernels()),
      begins_{0} {
  for (const TensorSpec& spec : schema_.tensors()) {
    const uint64_t end = begins_.back() + spec.bytes();
    begins_.push_back((end + kAlignment - 1) / kAlignment * kAlignment);
  }
  bytes_.resize(begins_.back());
}

StatusOr<DeviceSpan<const uint8_t>> DeviceView::PresentView(size_t tensor) {
  const uint64_t begin = schema_.offset(tensor), elements = schema_.offset(tensor + 1) - begin;
  const DeviceSpan<const float> theta = arrays_.theta().subspan(begin, elements);
  if (schema_.tensors()[tensor].dtype == DType::kF32) return DeviceBytes(theta);
  PULSE_ASSIGN_OR_RETURN(const auto cast,
                         cast_room_.Get<uint16_t>(arrays_.work().driver(), elements));
  PULSE_RETURN_IF_ERROR(arrays_.work().Did(
      arrays_.kernels().cast_to_bf16(theta, cast, arrays_.work().stream()), "casting to the view"));
  return DeviceBytes(cast);
}

Status DeviceView::TakeWhole(Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(published_,
                         published_room_.Get<uint8_t>(arrays_.work().driver(), begins_.back()));
  for (size_t t = 0; t < schema_.tensors().size(); ++t) {
    PULSE_ASSIGN_OR_RETURN(const auto present, PresentView(t));
    PULSE_RETURN_IF_ERROR(
        arrays_.work().Copy<uint8_t>(present, published_.subspan(begins_[t], present.size)));
    PULSE_RETURN_IF_ERROR(arrays_.work().Down<uint8_t>(
        present, std::span(bytes_).subspan(begins_[t], present.size), deadline));
  }
  return OkStatus();
}

Status DeviceView::Update(Deadline deadline) {
  deltas_.clear();
  for (size_t t = 0; t < schema_.tensors().size(); ++t) {
    PULSE_RETURN_IF_ERROR(Annotate(UpdateTensor(t, deadline),
                                   fmt::format("tensor \"{}\"", schema_.tensors()[t].name)));
  }
  return OkStatus();
}

Status DeviceView::UpdateTensor(size_t tensor, Deadline deadline) {
  const DType dtype = schema_.tensors()[tensor].dtype;
  PULSE_ASSIGN_OR_RETURN(const auto present, PresentView(tensor));
  const auto published = published_.subspan(begins_[tensor], present.size);
  PULSE_ASSIGN_OR_RETURN(
      std::vector<WordDelta> pieces,
      coder_.Encode(codec_, dtype, published, present,
                    kCellBytes / (kContainerBlockElements * SizeOf(dtype)), deadline));
  for (size_t p = 0; p < pieces.size(); ++p) {
    const TensorRange cell{tensor, p * kCellBytes,
                           std::min<uint64_t>((p + 1) * kCellBytes, present.size)};
    if (pieces[p].changed > 0) {
      PULSE_RETURN_IF_ERROR(ApplyOnHost(cell, dtype, pieces[p].bytes));
    }
    deltas_[cell] = std::move(pieces[p]);
  }
  return arrays_.work().Copy<uint8_t>(present, published);
}

Status DeviceView::ApplyOnHost(const TensorRange& cell, DType dtype, ByteView delta) {
  const ByteSpan words = std::span(bytes_).subspan(begins_[cell.tensor] + cell.begin, cell.bytes());
  return codec_ == CodecId::kWordDeltaSmall
             ? ApplySmallDelta(host_kernels_, delta, words, dtype, words)
             : ApplyWordDelta(host_kernels_, delta, words, SizeOf(dtype), words);
}

StatusOr<ByteView> DeviceView::Read(const TensorRange& range, Bytes& /*scratch*/) const {
  return ByteView(bytes_).subspan(begins_[range.tensor] + range.begin, range.bytes());
}

std::optional<WordDelta> DeviceView::DeltaOf(const TensorRange& range, CodecId codec) const {
  const auto found = deltas_.find(range);
  if (codec != codec_ || found == deltas_.end()) return std::nullopt;
  return found->second;
}

}  // namespace pulse
