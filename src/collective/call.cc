#include "collective/call.h"

#include <algorithm>

namespace pulse {
namespace {

bool SameCall(const CallHeader& a, const CallHeader& b) {
  return a.operation == b.operation && a.sequence == b.sequence && a.root == b.root;
}

// "rank 0 (a), rank 1 (b) call barrier 3; rank 2 (c) calls all-gather 3"
std::string WhoCallsWhat(std::span<const CallHeader> calls, std::span<const std::string> hosts) {
  std::string text;
  std::vector<bool> told(calls.size(), false);
  for (size_t first = 0; first < calls.size(); ++first) {
    if (told[first]) continue;
    std::vector<int> ranks;
    for (size_t r = first; r < calls.size(); ++r) {
      if (!told[r] && SameCall(calls[first], calls[r])) {
        told[r] = true;
        ranks.push_back(static_cast<int>(r));
      }
    }
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", NameRanks(ranks, hosts),
                        ranks.size() == 1 ? "calls" : "call", Describe(calls[first]));
  }
  return text;
}

}  // namespace

std::string_view NameOf(Operation operation) {
  switch (operation) {
    case Operation::kAllGather:
      return "all-gather";
    case Operation::kAllToAll:
      return "all-to-all";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kBarrier:
      return "barrier";
  }
  return "unknown operation";  // a peer's header may hold any number
}

std::string Describe(const CallHeader& call) {
  if (call.operation == Operation::kBroadcast) {
    return fmt::format("{} {} from rank {}", NameOf(call.operation), call.sequence, call.root);
  }
  return fmt::format("{} {}", NameOf(call.operation), call.sequence);
}

std::string NameRanks(const std::vector<int>& ranks, std::span<const std::string> hosts) {
  std::string text;
  for (const int rank : ranks) {
    text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", rank,
                        hosts[static_cast<size_t>(rank)]);
  }
  return text;
}

Status CheckCalls(std::span<const CallHeader> calls, uint64_t max_message_bytes,
                  std::span<const std::string> hosts) {
  for (size_t r = 0; r < calls.size(); ++r) {
    if (calls[r].magic != CallHeader::kMagic) {
      return InvalidArgument(
          "{} speaks another protocol (magic {:#x}, expected {:#x}): run one build on all ranks",
          NameRanks({static_cast<int>(r)}, hosts), calls[r].magic, CallHeader::kMagic);
    }
  }
  for (const CallHeader& call : calls) {
    if (!SameCall(call, calls.front())) {
      return Internal("ranks must make the same calls in the same order, but {}",
                      WhoCallsWhat(calls, hosts));
    }
  }
  const CallHeader& call = calls.front();
  if (call.root < 0 || call.root >= static_cast<int64_t>(calls.size())) {
    return InvalidArgument("{}: there are {} ranks", Describe(call), calls.size());
  }
  for (size_t r = 0; r < calls.size(); ++r) {
    const uint64_t bytes = std::max(calls[r].bytes, calls[r].largest_bytes);
    if (bytes > max_message_bytes) {
      return ResourceExhausted("{}: {} announces {} bytes, the limit is {} (max_message_bytes)",
                               Describe(call), NameRanks({static_cast<int>(r)}, hosts), bytes,
                               max_message_bytes);
    }
  }
  return OkStatus();
}

Status MissingRanks(const CallHeader& call, const std::vector<int>& missing,
                    std::span<const std::string> hosts, int64_t waited_for_ns) {
  return DeadlineExceeded("{}: no data from {} within {:.1f} s", Describe(call),
                          NameRanks(missing, hosts), static_cast<double>(waited_for_ns) * 1e-9);
}

}  // namespace pulse
