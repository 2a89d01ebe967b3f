// A run, or several side by side, as a table for people and as JSON for scripts.
#pragma once

#include <string>
#include <vector>

#include "app/run_summary.h"

namespace pulse {

std::string SummaryTable(const std::vector<RunSummary>& runs);
// One object for one run, a list for several.
std::string SummaryJson(const std::vector<RunSummary>& runs);

}  // namespace pulse
