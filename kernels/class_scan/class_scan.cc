#include "kernels/class_scan/class_scan_bodies.h"

namespace pulse::kernels {

std::span<const ClassScanBody> ClassScanBodies() {
  static constexpr ClassScanBody kBodies[] = {
      {"reference", CountClassesRef, RankInClassRef, SelectInClassRef}};
  return kBodies;
}

}  // namespace pulse::kernels
