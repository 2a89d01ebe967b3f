// Which instruction set the SIMD bodies run with: the best that the CPU has, unless benches or
// tests hold them to another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace pulse::kernels {

// Highway's names ("AVX3_ZEN4", "AVX2", "NEON", ...) of those that the bodies were compiled for and
// this CPU has, the best first; those held, while some are held.
std::vector<std::string> InstructionSets();

// Holds every SIMD body of the process to the named one; "best" lets go. No bit of any result
// depends on it. Not thread-safe: before any kernel runs. kInvalidArgument lists the names, and
// lets go too.
Status HoldInstructionSet(std::string_view name);

}  // namespace pulse::kernels
