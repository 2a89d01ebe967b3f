#include "codec/rice_set.h"

#include <algorithm>
#include <vector>

namespace pulse {
namespace {

// The members of 0 .. n - 1 that are not in `set`, from the end: `out` may begin with `set`.
void Complement(uint32_t n, size_t set_size, std::span<uint32_t> out) {
  size_t in_set = set_size;
  size_t write = out.size();
  uint32_t value = n;
  // Members of `set` sit in out[0 .. in_set); they move up by at most what is left to write.
  std::vector<uint32_t> set(out.begin(), out.begin() + static_cast<ptrdiff_t>(set_size));
  while (write > 0) {
    --value;
    if (in_set > 0 && set[in_set - 1] == value) {
      --in_set;
    } else {
      out[--write] = value;
    }
  }
}

void EncodeGaps(uint32_t n, std::span<const uint32_t> members, StreamsWriter& out) {
  const int k = RiceBits(n, static_cast<uint32_t>(members.size()));
  const uint32_t low = (uint32_t{1} << k) - 1;
  uint32_t next = 0;
  for (const uint32_t member : members) {
    const uint32_t gap = member - next;
    out.raw.Put(gap & low, k);
    out.unary.PutUnary(gap >> k);
    next = member + 1;
  }
}

Status DecodeGaps(uint32_t n, StreamsReader& in, std::span<uint32_t> members) {
  if (members.empty()) return OkStatus();
  const int k = RiceBits(n, static_cast<uint32_t>(members.size()));
  PULSE_RETURN_IF_ERROR(in.NeedRaw(members.size() * static_cast<uint64_t>(k)));
  // One stream after the other: each loop is short and without a branch on what it reads.
  if (!in.unary.GetCounts(members, n >> k)) {
    return DataLoss("the unary stream ends or leaps inside a set of {}", members.size());
  }
  uint64_t next = 0;
  for (uint32_t& member : members) {
    next += uint64_t{member} << k | in.raw.Get(k);
    member = static_cast<uint32_t>(next++);
  }
  // They ascend, so the last one speaks for all.
  if (next > n) return DataLoss("member {} in a set of {}", next - 1, n);
  return OkStatus();
}

}  // namespace

int RiceBits(uint32_t n, uint32_t members) {
  // q^(2^k) <= (sqrt(5) - 1) / 2 with q = 1 - members / n, where -ln q = 2 members / (2 n -
  // members) to second order: 2^k * 2 members >= 0.48121 (2 n - members), in units of 2^-16.
  const uint64_t target = uint64_t{31537} * (2 * uint64_t{n} - members);
  int k = 0;
  while ((uint64_t{members} << (17 + k)) < target) ++k;
  return k;
}

void EncodeSet(uint32_t n, std::span<const uint32_t> members, StreamsWriter& out) {
  const auto count = static_cast<uint32_t>(members.size());
  if (count == 0 || count == n) return;
  if (count <= n - count) return EncodeGaps(n, members, out);
  std::vector<uint32_t> rest(n - count);
  auto member = members.begin();
  for (uint32_t value = 0, write = 0; write < rest.size(); ++value) {
    if (member != members.end() && *member == value) {
      ++member;
    } else {
      rest[write++] = value;
    }
  }
  EncodeGaps(n, rest, out);
}

Status DecodeSet(uint32_t n, StreamsReader& in, std::span<uint32_t> members) {
  const auto count = static_cast<uint32_t>(members.size());
  if (count == 0) return OkStatus();
  if (count <= n - count) return DecodeGaps(n, in, members);
  PULSE_RETURN_IF_ERROR(DecodeGaps(n, in, members.first(n - count)));
  Complement(n, n - count, members);
  return OkStatus();
}

}  // namespace pulse
