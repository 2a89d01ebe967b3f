// A subset of 0 .. n - 1 <-> bits, near the entropy of n independent choices.
//
// Whichever is smaller, the members or the rest, is written as gaps: k low bits each into the raw
// stream, the rest in unary. k follows from the counts, so that one set has one spelling. Where
// k = 0 the unary bits are the set's bitmap, so dense sets need no form of their own.
#pragma once

#include <cstdint>
#include <span>

#include "codec/block_streams.h"
#include "core/status.h"

namespace pulse {

// The low bits of a gap where `members` (1 .. n / 2) of n are coded: the smallest k for which half
// of the high parts are zero or more (Kiely, "Selecting the Golomb Parameter in Rice Coding",
// 2004).
int RiceBits(uint32_t n, uint32_t members);

// members: ascending, below n (at most 2^20). The reader must know n and the number of members.
void EncodeSet(uint32_t n, std::span<const uint32_t> members, StreamsWriter& out);

// Fills `members`, all of them (at most n); what it reads has one spelling. kDataLoss.
Status DecodeSet(uint32_t n, StreamsReader& in, std::span<uint32_t> members);

}  // namespace pulse
