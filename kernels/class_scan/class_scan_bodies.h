// The bodies of class_scan.h, for the list and the tests alone.
#pragma once

#include "kernels/class_scan/class_scan.h"

namespace pulse::kernels {

using ClassBegins = std::array<uint32_t, kClasses + 1>;

ClassCounts CountClassesRef(const ClassBlock& block);
ClassCounts RankInClassRef(const ClassBlock& block, std::span<const uint32_t> positions,
                           uint8_t* classes, uint32_t* ranks);
void SelectInClassRef(const ClassBlock& block, const ClassBegins& begins, uint32_t* entries);

}  // namespace pulse::kernels
