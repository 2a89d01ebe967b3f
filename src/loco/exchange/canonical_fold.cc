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

void FoldUpdates(const Sites& sites, std::span<const uint8_t> contributes,
                 const kernels::ReduceBody& reduce, std::span<const SparseUpdate> updates,
                 std::span<float> sum) {
  std::vector<float> site_sum(
      sites.size() > 1 ? std::min<uint64_t>(sum.size(), kSparseBlockElements) : 0);
  for (uint64_t b = 0; b < SparseBlocksFor(sum.size()); ++b) {
    const uint64_t begin = b * kSparseBlockElements;
    const uint64_t length = std::min<uint64_t>(kSparseBlockElements, sum.size() - begin);
    FoldInOrder(sites, contributes, reduce.add_dense,
                std::span(site_sum).first(site_sum.empty() ? 0 : length),
                sum.subspan(begin, length), [&](uint32_t k, std::span<float> out) {
                  reduce.add_sparse(out, updates[k].BlockPositions(b), updates[k].BlockValues(b));
                });
  }
}

}  // namespace pulse::loco
