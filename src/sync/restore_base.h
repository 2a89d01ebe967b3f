// Finds a publishing rank's base again: in its state folder, or by rebuilding it from the bucket.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "sync/chain.h"
#include "sync/staged_base.h"

namespace pulse {

// Makes `base` hold version `id` over `ranges` (empty: the whole model). known: what `base` holds
// now, if its digest is known; it saves most of the fetching. Objects are read without checking
// their SHA-256: the publisher compares the digest of the whole base before it publishes anything
// on top of it. Errors as of ChainReader::PlanTo and of reading payloads; then there is no base.
Status RestoreBase(ChainReader& chain, const kernels::KernelTable& kernels, const VersionId& id,
                   const std::vector<TensorRange>& ranges, const std::optional<LocalVersion>& known,
                   StagedBase& base);

// Whether that error, or one of reading such a base, says what is in the bucket or the folder, and
// not merely that it could not be asked: then the next version needs an anchor.
bool BaseIsLost(const Status& error);

}  // namespace pulse
