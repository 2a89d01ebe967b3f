// What every rank says about a collective call before any payload moves, and the checks on it that
// all transports share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace pulse {

// Above the FP32 weights of a 7B model (30.5 GB), the largest message that one broadcast of a usual
// model makes. A guard against nonsense, not a budget: jobs that know their sizes set a lower one.
inline constexpr uint64_t kDefaultMaxMessageBytes = uint64_t{32} << 30;

enum class Operation : uint32_t { kAllGather = 1, kAllToAll, kBroadcast, kBarrier };

std::string_view NameOf(Operation operation);

// Sent as it lies in memory: fixed-width, little-endian, no padding. All but `bytes` is the same
// towards every peer, so that all ranks reach the same verdict on a call.
struct CallHeader {
  static constexpr uint32_t kMagic = 0x31434C50;  // "PLC1"; a new layout gets a new digit

  uint32_t magic = kMagic;
  Operation operation = Operation::kBarrier;
  uint64_t sequence = 0;       // calls made on this communicator before this one
  int64_t root = 0;            // kBroadcast only
  uint64_t bytes = 0;          // payload from the sender to the receiver of this header
  uint64_t largest_bytes = 0;  // the most that the sender sends to any one rank
};
static_assert(sizeof(CallHeader) == 40);

// "all-gather 12"
std::string Describe(const CallHeader& call);

// "rank 2 (host7), rank 3 (host8)"
std::string NameRanks(const std::vector<int>& ranks, std::span<const std::string> hosts);

// calls[r] is rank r's header of one call; hosts[r] is its host. The same answer on every rank:
//   kInvalidArgument    not a header of this protocol: ranks run different builds
//   kInternal           ranks make different calls; names who calls what
//   kResourceExhausted  a message above max_message_bytes; names rank and size
//   kInvalidArgument    root is no rank
Status CheckCalls(std::span<const CallHeader> calls, uint64_t max_message_bytes,
                  std::span<const std::string> hosts);

// kDeadlineExceeded "all-gather 12: no data from rank 2 (host7) within 30.0 s".
Status MissingRanks(const CallHeader& call, const std::vector<int>& missing,
                    std::span<const std::string> hosts, int64_t waited_for_ns);

}  // namespace pulse
