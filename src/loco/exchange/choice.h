// Which exchange a round uses: a pure function of what all ranks know, so that all choose alike.
// The formulas are those of docs/algorithms.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "loco/exchange/canonical_fold.h"

namespace pulse::loco {

// kAuto: by estimate, in pulseloco; dense in the modes that send everything.
enum class ExchangeKind { kAuto, kSparseAllGather, kOwnerPartitioned, kSiteMerged, kDense };

inline constexpr std::array kExchangeKinds = {ExchangeKind::kSparseAllGather,
                                              ExchangeKind::kOwnerPartitioned,
                                              ExchangeKind::kSiteMerged, ExchangeKind::kDense};

std::string_view NameOf(ExchangeKind kind);  // "auto", "sparse-all-gather", ...
// kInvalidArgument lists the names there are.
StatusOr<ExchangeKind> ExchangeKindFromName(std::string_view name);

// What this exchange is about, and what earlier ones have taught. All of it agreed.
struct ChoiceFacts {
  uint64_t elements = 0;              // N
  std::span<const uint64_t> entries;  // by trainer; 0 where it does not contribute
  // Encoded, by trainer, as each expects from what its last update took.
  std::span<const uint64_t> payload_bytes;
  // Elements of the last sum that were not 0, as a share of all entries it was made of: u over the
  // sum of all n. In (0, 1]; 1 where nothing is known.
  double union_share = 1;
};

// The network and the machines, as a model. Sites hang on one link each, which their trainers
// share; with one site every trainer has a link of its own.
struct LinkModel {
  double link_bytes_per_second = 125e6;  // 1 Gbit/s, until a round has been measured
  // Inside a site, where there are several; as a multiple of the above.
  double inside_is_faster_by = 10;
  double step_seconds = 1e-3;  // of any collective call
  // To encode an entry, or to decode and add it: each was measured at 12 to 20 ns on one core.
  double entry_seconds = 14e-9;
};

// What an exchange is expected to take.
struct Estimate {
  ExchangeKind kind = ExchangeKind::kSparseAllGather;
  double link_bytes = 0;  // received over the busiest link: a site's, or with one site a rank's
  double rank_bytes = 0;  // received by the rank that receives most
  double seconds = 0;
};

Estimate EstimateExchange(ExchangeKind kind, const ChoiceFacts& facts, const Sites& sites,
                          const LinkModel& links);

// The estimate of the fastest; the earliest of kExchangeKinds where several are. site-merged is
// considered where there are several sites and one of them has several trainers.
Estimate ChooseExchange(const ChoiceFacts& facts, const Sites& sites, const LinkModel& links);

// `links` after an exchange that was expected to be `estimate` took `seconds` on the slowest rank.
// The rate moves half-way to what explains it; exchanges that tell little about it (short ones, or
// those in which computing took most) change nothing.
LinkModel Learn(const LinkModel& links, const Estimate& estimate, double seconds);

}  // namespace pulse::loco
