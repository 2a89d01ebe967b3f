#include "kernels/cast_view/cast_view_bodies.h"
#include "kernels/cast_view/cast_view_math.h"

namespace pulse::kernels {

void CastToBF16Ref(std::span<const float> in, std::span<uint16_t> out) {
  for (size_t i = 0; i < in.size(); ++i) out[i] = BF16Element(in[i]);
}

}  // namespace pulse::kernels
