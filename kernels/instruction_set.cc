#include "kernels/instruction_set.h"

#include <fmt/ranges.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace pulse::kernels {

std::vector<std::string> InstructionSets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

Status HoldInstructionSet(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);  // or the list below is what is held already
  if (name == "best") return OkStatus();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    return OkStatus();
  }
  return InvalidArgument("no instruction set named '{}'; there are best and {}", name,
                         fmt::join(InstructionSets(), ", "));
}

}  // namespace pulse::kernels
