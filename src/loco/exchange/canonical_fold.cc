#include "loco/exchange/canonical_fold.h"

#include <numeric>

#include "loco/exchange/exchange.h"

namespace pulse::loco {

uint64_t AgreedRound::total_entries() const {
  return std::accumulate(entries.begin(), entries.end(), uint64_t{0});
}

Sites GroupBySite(std::span<const uint32_t> site_of, uint32_t trainers) {
  Sites sites(site_of.empty() ? 1 : *std::max_element(site_of.begin(), site_of.end()) + 1);
  for (uint32_t k = 0; k < trainers; ++k) sites[site_of.empty() ? 0 : site_of[k]].push_back(k);
  return sites;
}

}  // namespace pulse::loco
