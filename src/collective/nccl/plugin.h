// The symbols of the loadable library that links NCCL, libpulse_nccl_plugin.so.
#pragma once

#include <string>

#include "collective/nccl/nccl_table.h"

namespace pulse {

inline constexpr char kNcclPluginFile[] = "libpulse_nccl_plugin.so";

inline constexpr char kNcclDriverSymbol[] = "pulse_nccl_driver";
using NcclDriverFn = void (*)(NcclTable* table);  // as NcclDriver

inline constexpr char kNcclFactsSymbol[] = "pulse_nccl_facts";
using NcclFactsFn = void (*)(std::string* words);  // as NcclFacts

}  // namespace pulse
