// How the array is cut: among owners, and into segments that bound what lies in buffers at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/communicator.h"
#include "loco/exchange/exchange.h"

namespace pulse::loco {

// First element of owner r's range of `length` elements; r == owners gives the end. Ranges ascend,
// cover everything, and differ by at most a sixteenth: they are whole blocks of the sparse codec
// where there are enough of those, whole cache lines in smaller arrays, and else what comes out.
uint64_t OwnerBegin(uint64_t length, uint64_t r, uint64_t owners);

// Memory that an exchange of sparse updates may need per entry, of all trainers, at its worst: an
// entry that can't be packed takes 5 bytes, and is encoded, sealed, received and decoded (8).
inline constexpr uint64_t kBytesPerSparseEntry = 32;
// More of it per element, where a dense sum may go on the wire: sealed, received, added.
inline constexpr uint64_t kBytesPerSummedElement = 16;
// The same of a dense exchange: its chunks sealed, received by their owners, the sums, and the
// array that a sparse contribution is scattered to.
inline constexpr uint64_t kBytesPerDenseElement = 16;

// Borders of segments, from 0 to `elements`, such that each needs at most memory_bytes, at
// kBytesPerSparseEntry or at bytes_per_element, whichever is more. entries: all trainers', by block
// of kSparseBlockElements. Segments are whole blocks; a block that alone needs more is cut into
// pieces, of at least one element, in which every trainer may have every entry.
std::vector<uint64_t> CutByEntries(uint64_t elements, std::span<const uint64_t> entries,
                                   uint32_t trainers, uint64_t bytes_per_element,
                                   uint64_t memory_bytes);

// Borders of segments of whole blocks, or smaller, that need no more than memory_bytes each at
// bytes_per_element.
std::vector<uint64_t> CutEvenly(uint64_t elements, uint64_t bytes_per_element,
                                uint64_t memory_bytes);

// Borders of finer segments: whole blocks again where they were, none longer than a `pieces`-th of
// the whole (rounded up to blocks).
std::vector<uint64_t> CutFiner(const std::vector<uint64_t>& borders, uint64_t pieces);

// Collective if the round's entries may need more than memory_bytes: then the ranks tell each other
// how their entries are spread (8 bytes a block) before CutByEntries. One segment otherwise.
StatusOr<std::vector<uint64_t>> AgreeOnSegments(Communicator& communicator,
                                                const Contribution& mine, const AgreedRound& round,
                                                uint64_t elements, uint64_t bytes_per_element,
                                                uint64_t memory_bytes, Deadline deadline);

}  // namespace pulse::loco
