#include "loco/exchange/choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace pulse::loco {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"auto", "sparse-all-gather",
                                                    "owner-partitioned", "site-merged", "dense"};

// The figures that all formulas are made of, in entries and bytes of all trainers.
struct Figures {
  double trainers, elements, entries, payload, entry_bytes, share;
  std::vector<double> site_size, site_entries, site_payload;

  Figures(const ChoiceFacts& facts, const Sites& sites)
      : trainers(static_cast<double>(facts.entries.size())),
        elements(static_cast<double>(facts.elements)),
        entries(Total(facts.entries)),
        payload(Total(facts.payload_bytes)),
        entry_bytes(entries > 0 ? payload / entries : 0),
        share(facts.union_share) {
    for (const auto& site : sites) {
      double of_entries = 0, of_payload = 0;
      for (const uint32_t k : site) {
        of_entries += static_cast<double>(facts.entries[k]);
        of_payload += static_cast<double>(facts.payload_bytes[k]);
      }
      site_size.push_back(static_cast<double>(site.size()));
      site_entries.push_back(of_entries);
      site_payload.push_back(of_payload);
    }
  }

  static double Total(std::span<const uint64_t> of_trainers) {
    return static_cast<double>(
        std::accumulate(of_trainers.begin(), of_trainers.end(), uint64_t{0}));
  }

  // Elements that a sum over `members` trainers with so many entries together touches. Alone, a
  // trainer's entries are all different ones; the more trainers, the more of them coincide.
  double Union(double of_entries, double members) const {
    const double coincide = trainers > 1 ? (1 - share) * (members - 1) / (trainers - 1) : 0;
    return std::min(elements, of_entries * (1 - coincide));
  }
  // Of a sum on the wire: sparse or dense, whichever is smaller.
  double SumBytes(double touched) const { return std::min(touched * entry_bytes, 4 * elements); }
};

// What one site's link, one rank inside it, and one rank's processor have to do.
struct Load {
  double link_bytes = 0, inside_bytes = 0, steps = 0, entries = 0;
};

Load LoadOf(ExchangeKind kind, const Figures& f, size_t site, size_t sites) {
  const double size = f.site_size[site], others = f.trainers - size;
  const double from_outside = f.payload - f.site_payload[site];
  const double peers = size - 1;  // inside the site
  const double all_touched = f.Union(f.entries, f.trainers);
  const double all_sum = f.SumBytes(all_touched);
  switch (kind) {
    case ExchangeKind::kDense: {
      const double chunk = 4 * f.elements / f.trainers;
      return {.link_bytes = 2 * size * others * chunk,
              .inside_bytes = 2 * peers * chunk,
              .steps = 2,
              .entries = 0};
    }
    case ExchangeKind::kOwnerPartitioned:
      return {.link_bytes = size / f.trainers * (from_outside + others * all_sum),
              .inside_bytes = peers / f.trainers * (f.site_payload[site] / size + all_sum),
              .steps = 2,
              .entries = 2 * f.entries / f.trainers + all_touched};
    case ExchangeKind::kSiteMerged: {
      double sums = 0, touched = 0;
      for (size_t s = 0; s < sites; ++s) {
        const double in_site = f.Union(f.site_entries[s], f.site_size[s]);
        touched += in_site;
        if (s != site) sums += f.SumBytes(in_site);
      }
      // Its leader's: members' updates come in, the total goes out.
      return {.link_bytes = sums,
              .inside_bytes = peers * (f.site_payload[site] / size + all_sum),
              .steps = 3,
              .entries = f.site_entries[site] + touched + all_touched};
    }
    case ExchangeKind::kSparseAllGather:
    case ExchangeKind::kAuto:
      break;
  }
  return {.link_bytes = size * from_outside,
          .inside_bytes = peers / size * f.site_payload[site],
          .steps = 1,
          .entries = f.entries / f.trainers + f.entries};
}

}  // namespace

std::string_view NameOf(ExchangeKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

StatusOr<ExchangeKind> ExchangeKindFromName(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at != kNames.end()) return static_cast<ExchangeKind>(at - kNames.begin());
  return InvalidArgument("exchange is \"{}\"; expected {}", name, fmt::join(kNames, ", "));
}

Estimate EstimateExchange(ExchangeKind kind, const ChoiceFacts& facts, const Sites& sites,
                          const LinkModel& links) {
  const Figures figures(facts, sites);
  const bool own_links = sites.size() == 1;
  const double inside_rate =
      links.link_bytes_per_second * (own_links ? 1 : links.inside_is_faster_by);
  Estimate estimate{.kind = kind};
  for (size_t s = 0; s < sites.size(); ++s) {
    const Load load = LoadOf(kind, figures, s, sites.size());
    const double seconds = load.link_bytes / links.link_bytes_per_second +
                           load.inside_bytes / inside_rate + load.steps * links.step_seconds +
                           load.entries * links.entry_seconds;
    const double link_bytes = own_links ? load.inside_bytes : load.link_bytes;
    const double leads = kind == ExchangeKind::kSiteMerged ? 1 : figures.site_size[s];
    estimate.link_bytes = std::max(estimate.link_bytes, link_bytes);
    estimate.rank_bytes =
        std::max(estimate.rank_bytes, load.link_bytes / leads + load.inside_bytes);
    estimate.seconds = std::max(estimate.seconds, seconds);
  }
  return estimate;
}

Estimate ChooseExchange(const ChoiceFacts& facts, const Sites& sites, const LinkModel& links) {
  const bool merging = sites.size() > 1 && std::any_of(sites.begin(), sites.end(),
                                                       [](auto& site) { return site.size() > 1; });
  Estimate best;
  for (const ExchangeKind kind : kExchangeKinds) {
    if (kind == ExchangeKind::kSiteMerged && !merging) continue;
    const Estimate estimate = EstimateExchange(kind, facts, sites, links);
    if (kind == kExchangeKinds.front() || estimate.seconds < best.seconds) best = estimate;
  }
  return best;
}

LinkModel Learn(const LinkModel& links, const Estimate& estimate, double seconds) {
  constexpr double kTellingSeconds = 0.01;           // shorter ones are scheduling and latency
  constexpr double kSlowest = 1e3, kFastest = 1e12;  // bytes per second: no nonsense
  // All but what is proportional to bytes is taken as the model has it.
  const double of_link = estimate.link_bytes / links.link_bytes_per_second;
  const double of_rest = estimate.seconds - of_link;
  const double transfer = seconds - of_rest;
  if (of_link <= 0 || seconds < kTellingSeconds || !(transfer > seconds / 4)) return links;
  LinkModel learnt = links;
  const double rate = std::clamp(estimate.link_bytes / transfer, kSlowest, kFastest);
  learnt.link_bytes_per_second = (links.link_bytes_per_second + rate) / 2;
  return learnt;
}

}  // namespace pulse::loco
