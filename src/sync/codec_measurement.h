// What both codecs cost on this machine for this very change, from a sample of its ranges.
#pragma once

#include <vector>

#include "core/clock.h"
#include "kernels/kernels.h"
#include "sync/codec_choice.h"
#include "sync/view.h"

namespace pulse {

// Encodes and decodes every 16th range with both codecs and scales the outcome to all of them;
// threads share the encoding. The link is left open. Costs about a tenth of an encoding. Times are
// of this machine and moment; what is chosen by them changes the bytes on the wire, never the
// weights.
StatusOr<CodecCosts> MeasureCodecs(const kernels::KernelTable& kernels, const ViewSource& before,
                                   const ViewSource& after, const std::vector<TensorRange>& ranges,
                                   int threads, const Clock& clock);

}  // namespace pulse
