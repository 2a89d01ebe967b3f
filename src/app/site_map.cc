#include "app/site_map.h"

#include <algorithm>

namespace pulse {

StatusOr<std::vector<uint32_t>> SitesOf(std::span<const std::string> names,
                                        uint32_t ranks_per_trainer) {
  std::vector<std::string> known;
  std::vector<uint32_t> sites;
  for (size_t first = 0; first < names.size(); first += ranks_per_trainer) {
    const std::string& name = names[first];
    for (size_t r = first; r < first + ranks_per_trainer; ++r) {
      if (names[r].empty()) {
        return InvalidArgument("loco.sites_by: rank {} knows no name of its site", r);
      }
      if (names[r] != name) {
        return InvalidArgument(
            "loco.sites_by: ranks {} and {} are of one trainer and at different sites, \"{}\" and "
            "\"{}\"",
            first, r, name, names[r]);
      }
    }
    auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) at = known.insert(known.end(), name);
    sites.push_back(static_cast<uint32_t>(at - known.begin()));
  }
  return sites;
}

}  // namespace pulse
