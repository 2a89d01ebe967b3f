// What every exchange must compute, on any communicator: inputs, and the canonical sum of them
// written down element by element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"
#include "trainer/synthetic.h"

namespace pulse::loco {

// One trainer's data as a sparse update, and as an array with zeros.
struct ExchangeInput {
  // present: which elements are entries; beyond its end, none.
  ExchangeInput(std::vector<float> values, const std::vector<bool>& present)
      : dense(std::move(values)) {
    sparse.elements = dense.size();
    for (uint64_t i = 0; i < dense.size(); ++i) {
      if (i > 0 && i % kSparseBlockElements == 0) sparse.starts.push_back(sparse.entries());
      if (i >= present.size() || !present[i]) {
        dense[i] = 0;
        continue;
      }
      sparse.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
      sparse.values.push_back(dense[i]);
    }
    if (!dense.empty()) sparse.starts.push_back(sparse.entries());
  }

  SparseUpdate sparse;
  std::vector<float> dense;
};

// A round's data on all trainers. Deterministic.
struct ExchangeCase {
  // share: of the elements that are entries, others on each trainer; some entries are -0.
  ExchangeCase(std::vector<uint32_t> sites_of_trainers, uint64_t n, SyntheticData data,
               double share)
      : site_of(std::move(sites_of_trainers)), elements(n), contributes(site_of.size(), 1) {
    const auto trainers = static_cast<uint32_t>(site_of.size());
    SyntheticOptions options;
    options.tensors = {{"a", DType::kBF16, {n}}};
    options.data = data;
    const auto trainer = *SyntheticTrainer::Make(options);
    for (uint32_t k = 0; k < trainers; ++k) {
      std::vector<float> values(n);
      EXPECT_TRUE(trainer->Gradient({k, trainers, 0, 0}, values, values, values).ok());
      std::vector<bool> present(n);
      for (uint64_t i = 0; i < n; ++i) {
        // Fibonacci hashing: which entries there are looks random and differs between trainers.
        const auto draw = static_cast<uint32_t>(i * 2654435769u + k * 40503u * 65536u);
        present[i] = static_cast<double>(draw) * 0x1p-32 < share;
        if (i % 101 == k) values[i] = -0.0f;
      }
      inputs.emplace_back(std::move(values), present);
    }
    theta = inputs.front().dense;
  }

  Sites sites() const { return GroupBySite(site_of, static_cast<uint32_t>(site_of.size())); }

  Contribution ContributionOf(size_t k, bool sparse) const {
    if (contributes[k] == 0) return {};
    return sparse ? Contribution{.sparse = &inputs[k].sparse, .dense = {}}
                  : Contribution{.sparse = nullptr, .dense = inputs[k].dense};
  }

  std::vector<uint64_t> Entries(bool sparse) const {
    std::vector<uint64_t> entries;
    for (size_t k = 0; k < inputs.size(); ++k) {
      entries.push_back(ContributionOf(k, sparse).entries());
    }
    return entries;
  }

  // Rank k's call. A dense contribution lies where the sum will, which the contract allows.
  Status Sum(Exchange& exchange, size_t k, bool sparse, std::vector<float>& sum) const {
    Contribution mine = ContributionOf(k, sparse);
    sum.assign(elements, 99.0f);
    if (!sparse && !mine.absent()) {
      sum = inputs[k].dense;
      mine.dense = sum;
    }
    const std::vector<uint64_t> entries = Entries(sparse);
    return exchange.Sum(
        mine,
        {.contributes = contributes, .entries = entries, .codec = {.name = codec}, .theta = theta},
        sum, Deadline::Never());
  }

  // The canonical sum.
  std::vector<float> Fold() const {
    std::vector<float> sum(elements);
    const uint32_t sites_end = *std::max_element(site_of.begin(), site_of.end()) + 1;
    for (uint64_t i = 0; i < elements; ++i) {
      for (uint32_t site = 0; site < sites_end; ++site) {
        float of_site = 0;
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (site_of[k] == site && contributes[k] != 0) of_site += inputs[k].dense[i];
        }
        sum[i] += of_site;
      }
    }
    return sum;
  }

  std::vector<uint32_t> site_of;
  uint64_t elements;
  std::vector<uint8_t> contributes;
  std::vector<ExchangeInput> inputs;
  UpdateCodecName codec = UpdateCodecName::kSmall;
  std::vector<float> theta;  // any weights: all ranks have the same
};

// K in {1, 2, 3, 4, 8}; one site, one per trainer, even and uneven ones, interleaved ones.
inline std::vector<std::vector<uint32_t>> SiteMaps() {
  return {{0},
          {0, 0},
          {1, 0},
          {0, 0, 0},
          {0, 1, 0},
          {0, 0, 0, 0},
          {0, 1, 2, 3},
          {0, 0, 1, 1},
          {1, 0, 0, 0},
          {0, 0, 0, 0, 0, 0, 0, 0},
          {0, 0, 0, 0, 1, 1, 1, 1},
          {2, 0, 1, 0, 2, 0, 1, 0}};
}

// How many elements differ as bits.
inline size_t Differences(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  size_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differences += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return differences;
}

}  // namespace pulse::loco
