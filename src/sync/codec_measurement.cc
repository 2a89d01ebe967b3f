#include "sync/codec_measurement.h"

#include "sync/range_codec.h"

namespace pulse {
namespace {

constexpr size_t kOneIn = 16;

struct Sample {
  CodecCost cost;

  // Adds one range. Unchanged ranges cost a scan and no bytes.
  Status Add(const kernels::KernelTable& kernels, RangeCodec codec, ByteView before, ByteView after,
             DType dtype, const Clock& clock) {
    const int64_t begin_ns = clock.NowNs();
    PULSE_ASSIGN_OR_RETURN(const WordDelta delta,
                           EncodeRange(kernels, codec, before, after, dtype));
    const int64_t encoded_ns = clock.NowNs();
    Bytes rebuilt(before.begin(), before.end());
    const int64_t copied_ns = clock.NowNs();
    PULSE_RETURN_IF_ERROR(ApplyRange(kernels, codec, delta.bytes, dtype, rebuilt));
    cost.encode_s += static_cast<double>(encoded_ns - begin_ns) * 1e-9;
    cost.decode_s += static_cast<double>(clock.NowNs() - copied_ns) * 1e-9;
    if (delta.changed > 0) cost.bytes += static_cast<double>(delta.bytes.size());
    return OkStatus();
  }
};

CodecCost Scaled(const CodecCost& cost, double factor, int threads) {
  return {.encode_s = cost.encode_s * factor / threads,
          .decode_s = cost.decode_s * factor,
          .bytes = cost.bytes * factor};
}

}  // namespace

StatusOr<CodecCosts> MeasureCodecs(const kernels::KernelTable& kernels, const ViewSource& before,
                                   const ViewSource& after, const std::vector<TensorRange>& ranges,
                                   int threads, const Clock& clock) {
  Sample fast, small;
  uint64_t sampled = 0, all = 0;
  Bytes before_scratch, after_scratch;
  for (size_t i = 0; i < ranges.size(); ++i) {
    all += ranges[i].bytes();
    if (i % kOneIn != 0) continue;
    sampled += ranges[i].bytes();
    PULSE_ASSIGN_OR_RETURN(const ByteView old_bytes, before.Read(ranges[i], before_scratch));
    PULSE_ASSIGN_OR_RETURN(const ByteView new_bytes, after.Read(ranges[i], after_scratch));
    const DType dtype = after.schema().tensors()[ranges[i].tensor].dtype;
    PULSE_RETURN_IF_ERROR(fast.Add(kernels, RangeCodec::kFast, old_bytes, new_bytes, dtype, clock));
    PULSE_RETURN_IF_ERROR(
        small.Add(kernels, RangeCodec::kSmall, old_bytes, new_bytes, dtype, clock));
  }
  if (sampled == 0) return CodecCosts{};
  const double factor = static_cast<double>(all) / static_cast<double>(sampled);
  return CodecCosts{.fast = Scaled(fast.cost, factor, threads),
                    .small = Scaled(small.cost, factor, threads)};
}

}  // namespace pulse
