# pulse_flags: the warnings of every target of ours, and the compiler's half of the arithmetic
# contract (docs/design.md): no contraction into fused multiply-adds, no fast-math, no x87.
# tests/arithmetic_contract fails when one of these is taken away.
add_library(pulse_flags INTERFACE)
target_compile_features(pulse_flags INTERFACE cxx_std_20)
target_compile_options(pulse_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Werror=unused-result>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-fast-math;-fno-math-errno>)
# Arm: NEON alone. Bodies keep vectors in classes, which those of SVE, whose length the compiler does
# not know, can't be. (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128; see hwy/detect_targets.h.)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_definitions(pulse_flags INTERFACE HWY_DISABLED_TARGETS=0xF000000)
endif()
if(PULSE_SANITIZE)
  string(REPLACE ";" "," _pulse_sanitize "${PULSE_SANITIZE}")
  target_compile_options(pulse_flags INTERFACE -fsanitize=${_pulse_sanitize} -fno-omit-frame-pointer)
  target_link_options(pulse_flags INTERFACE -fsanitize=${_pulse_sanitize})
endif()
