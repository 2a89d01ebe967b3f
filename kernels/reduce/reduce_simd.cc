#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/arithmetic/arithmetic_inl.h"
#include "kernels/arithmetic/prefetch.h"
#include "kernels/reduce/reduce_bodies.h"
#include "kernels/reduce/reduce_math.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddDense(std::span<float> sum, std::span<const float> addend) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= sum.size(); i += lanes) {
    const auto added = hn::Add(hn::LoadU(d, sum.data() + i), hn::LoadU(d, addend.data() + i));
    hn::StoreU(CanonicalLanes(d, added), d, sum.data() + i);
  }
  for (; i < sum.size(); ++i) sum[i] = AddElement(sum[i], addend[i]);
}

void Mean(std::span<float> sum, float trainers) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto divisor = hn::Set(d, trainers);
  size_t i = 0;
  for (; i + lanes <= sum.size(); i += lanes) {
    PrefetchAhead(sum.data() + i);
    const auto mean = hn::Div(hn::LoadU(d, sum.data() + i), divisor);
    hn::StoreU(CanonicalLanes(d, mean), d, sum.data() + i);
  }
  for (; i < sum.size(); ++i) sum[i] = MeanElement(sum[i], trainers);
}

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::kernels {

HWY_EXPORT(AddDense);
HWY_EXPORT(Mean);

// No vectors: scattered entries cost their cache lines. A block of the sum is larger than a core's
// cache, and the processor does not see which lines come next.
void AddSparseSimd(std::span<float> sum, std::span<const uint32_t> positions,
                   std::span<const float> values) {
  constexpr size_t kAhead = 32;
  size_t i = 0;
  for (; i + kAhead < positions.size(); ++i) {
    __builtin_prefetch(sum.data() + positions[i + kAhead], 1);
    float& at = sum[positions[i]];
    at = AddElement(at, values[i]);
  }
  AddSparseRef(sum, positions.subspan(i), values.subspan(i));
}

void AddDenseSimd(std::span<float> sum, std::span<const float> addend) {
  HWY_DYNAMIC_DISPATCH(AddDense)(sum, addend);
}

void MeanSimd(std::span<float> sum, float trainers) {
  HWY_DYNAMIC_DISPATCH(Mean)(sum, trainers);
}

}  // namespace pulse::kernels
#endif
