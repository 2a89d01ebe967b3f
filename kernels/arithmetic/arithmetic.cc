#include "kernels/arithmetic/arithmetic.h"

namespace pulse::kernels {

Status CheckArithmetic() {
  // volatile: computed at run time, in the mode of this thread.
  volatile float smallest_normal = 0x1p-126f;
  volatile float denormal = 0x1p-149f;
  volatile float half = 0.5f;
  volatile float one = 1.0f;
  volatile float tie = 0x1p-24f;
  volatile float odd = 1.0f + 0x1p-12f;
  const float product = smallest_normal * half;
  const float scaled = denormal * 2.0f;
  if (std::bit_cast<uint32_t>(product) != 0x00400000 || std::bit_cast<uint32_t>(scaled) != 2) {
    return FailedPrecondition(
        "this thread flushes denormal numbers (FTZ/DAZ); clear them before training: a linked "
        "library "
        "was built with -ffast-math, or called set_flush_denormal");
  }
  const float up = one + tie, down = -one - tie;
  if (up != 1.0f || down != -1.0f || one + 3 * tie != 1.0f + 0x1p-22f) {
    return FailedPrecondition(
        "this thread does not round each FP32 operation to nearest even; restore FE_TONEAREST");
  }
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: rounded, the last term is a tie and goes; fused, it stays.
  if (odd * odd - (1.0f + 0x1p-11f) != 0.0f) {
    return FailedPrecondition(
        "the kernels were compiled with fused multiply-adds; build them with "
        "-ffp-contract=off");
  }
  return OkStatus();
}

}  // namespace pulse::kernels
