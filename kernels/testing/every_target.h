// Runs a test on every instruction set that the SIMD bodies were compiled for and this CPU has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdint>

namespace pulse::kernels {

// test(): called once per target, with dispatch held to it. Not thread-safe: dispatch is per
// process.
template <typename Test>
void OnEveryTarget(Test test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace pulse::kernels
