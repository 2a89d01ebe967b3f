// How messages name ranks: with their hosts, since that is where a person has to look.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "collective/call.h"
#include "collective/communicator.h"

namespace pulse::loco {

// "rank 2 (host7), rank 3 (host8)"; of many, the first few and how many more.
inline std::string NameRanks(const Communicator& communicator, std::span<const size_t> ranks) {
  constexpr size_t kNamed = 8;
  std::vector<int> named;
  for (const size_t r : ranks.first(std::min(kNamed, ranks.size()))) {
    named.push_back(static_cast<int>(r));
  }
  std::vector<std::string> hosts;
  for (int r = 0; r < communicator.size(); ++r) hosts.push_back(communicator.HostOf(r));
  const std::string names = pulse::NameRanks(named, hosts);
  return ranks.size() > kNamed ? fmt::format("{} and {} more", names, ranks.size() - kNamed)
                               : names;
}

inline std::string NameRank(const Communicator& communicator, size_t rank) {
  return NameRanks(communicator, {&rank, 1});
}

}  // namespace pulse::loco
