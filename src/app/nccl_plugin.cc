#include "app/nccl_plugin.h"

#include "app/plugin.h"
#include "collective/nccl/plugin.h"

namespace pulse {
namespace {

constexpr std::string_view kHint = "so no NCCL: build where nvcc and nccl.h are found";

}  // namespace

StatusOr<NcclTable> LoadNccl() {
  PULSE_ASSIGN_OR_RETURN(void* const fill, LoadPlugin(kNcclPluginFile, kNcclDriverSymbol, kHint));
  NcclTable table;
  reinterpret_cast<NcclDriverFn>(fill)(&table);
  return table;
}

StatusOr<std::string> NcclVersion() {
  PULSE_ASSIGN_OR_RETURN(void* const facts, LoadPlugin(kNcclPluginFile, kNcclFactsSymbol, kHint));
  std::string words;
  reinterpret_cast<NcclFactsFn>(facts)(&words);
  return words;
}

}  // namespace pulse
