// The arrays that `bench codec` measures on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "kernels/kernels.h"
#include "store/filesystem.h"

namespace pulse {

// BF16 words before and after a version.
struct CodecData {
  std::string name;
  std::vector<uint16_t> before;
  std::vector<uint16_t> after;
};

// "adam-3e-6", "adam-1e-6", "adam-2.5e-7": weights as in language models (median |w| 0.019, FP32
// masters cast to BF16), of which an Adam step of that rate, 0.3 of it on average, moved each.
// "frozen": adam-1e-6, where 7 of 8 rows of 4,096 are never trained. "all changed", "none",
// "random": what the names say. All have AddAwkwardWords. kInvalidArgument lists the names.
StatusOr<CodecData> MakeCodecData(const std::string& name, uint64_t elements,
                                  const kernels::KernelTable& kernels);

std::vector<std::string> CodecDataNames();

// What real weights hold too: of every 2^15 words one becomes a NaN with a payload and one a
// denormal, and every 64th row of 4,096 words is frozen.
void AddAwkwardWords(CodecData& data);

// The BF16 tensors of pairs of checkpoints, "BEFORE,AFTER" each, one behind the other.
StatusOr<CodecData> LoadCodecData(Filesystem& fs, const std::vector<std::string>& pairs);

}  // namespace pulse
