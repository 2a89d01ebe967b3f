// The one order in which trainers' contributions are added (docs/design.md, "One canonical sum"):
// start at +0; within a site, trainers in order; then the sites' sums in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reduce/reduce.h"

namespace pulse::loco {

// By site, its trainers in ascending order. Never empty.
using Sites = std::vector<std::vector<uint32_t>>;

// site_of[k]: the site of trainer k, numbered without gaps; empty: one site.
Sites GroupBySite(std::span<const uint32_t> site_of, uint32_t trainers);

// sum = the canonical sum over one range of elements. add(k, out) adds trainer k's contribution
// over that range to `out`; it is called for each trainer with contributes[k] != 0. site_sum:
// scratch as long as `sum`; unused, and may be empty, with one site.
template <typename AddTrainer>
void FoldInOrder(const Sites& sites, std::span<const uint8_t> contributes,
                 kernels::AddDenseFn add_dense, std::span<float> site_sum, std::span<float> sum,
                 AddTrainer add) {
  std::fill(sum.begin(), sum.end(), 0.0f);
  const auto add_site = [&](const std::vector<uint32_t>& site, std::span<float> out) {
    for (const uint32_t k : site) {
      if (contributes[k] != 0) add(k, out);
    }
  };
  if (sites.size() == 1) {
    // +0 plus the site's sum is that sum, bit for bit: having started at +0 it is never -0.
    add_site(sites.front(), sum);
    return;
  }
  for (const auto& site : sites) {
    std::fill(site_sum.begin(), site_sum.end(), 0.0f);
    add_site(site, site_sum);
    add_dense(sum, site_sum);
  }
}

}  // namespace pulse::loco
