// Not part of any library: compiled to PTX by ptx_test.py, which looks at the instructions.
#include <cuda_runtime.h>

#include "kernels/adamw/adamw_math.h"
#include "kernels/outer_step/outer_step_math.h"

namespace pulse::kernels {

__global__ void Probe(AdamWScalars adamw, OuterScalars outer, float* a, float* b, float* c,
                      float* d) {
  const unsigned i = threadIdx.x;
  AdamWElement(adamw, a[i], b[i], c[i], d[i]);
  OuterStepElement(outer, d[i], b[i], a[i]);
}

}  // namespace pulse::kernels
