#include "kernels/apply/apply_bodies.h"

namespace pulse::kernels {

// No SIMD body: scattered words cost their cache lines (at one word in ten, 128 bytes of traffic in
// about 5 ns), and x86 has no scatter of 1- and 2-byte words.
std::span<const ApplyBody> ApplyBodies() {
  static constexpr ApplyBody kBodies[] = {{"reference", ApplyRef}};
  return kBodies;
}

}  // namespace pulse::kernels
