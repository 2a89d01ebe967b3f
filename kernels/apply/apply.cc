#include "kernels/apply/apply_bodies.h"

namespace pulse::kernels {

std::span<const ApplyBody> ApplyBodies() {
  static constexpr ApplyBody kBodies[] = {{"reference", ApplyRef}};
  return kBodies;
}

}  // namespace pulse::kernels
