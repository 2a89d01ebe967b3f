#include "kernels/gate/gate_bodies.h"

namespace pulse::kernels {

std::span<const GateBody> GateBodies() {
  static constexpr GateBody kBodies[] = {{"reference", GateRef}, {"simd", GateSimd}};
  return kBodies;
}

}  // namespace pulse::kernels
