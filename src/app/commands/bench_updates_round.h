// What a round costs a rank's processor beside training: gate, encode, decode and reduce.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "app/commands/bench_updates_data.h"
#include "core/sparse_update.h"
#include "kernels/kernels.h"

namespace pulse {

// Of trainer `mine` and of those that sent `others`, on one thread, through the exchanges' own
// functions, without a network; beside reading the state's 24 bytes a parameter. In times of the
// thread, and by turns: each ratio is of one turn.
nlohmann::json MeasureRound(size_t repeats, const kernels::KernelTable& kernels,
                            const Trained& mine, const std::vector<SparseUpdate>& others);

void PrintRound(const nlohmann::json& round);

}  // namespace pulse
