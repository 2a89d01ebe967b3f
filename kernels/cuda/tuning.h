// The tuning numbers of the CUDA kernels, as data: no other file holds one.
#pragma once

#include <cstdint>

namespace pulse::kernels {

// One element in, one out. 256 threads: full occupancy at up to 128 registers on Ampere and
// Hopper. 4 packs of 16 bytes a thread and array: a block then moves 16 KiB per array, enough to
// hide its own launch. Not yet measured on a card (docs/gpu.md).
inline constexpr uint32_t kElementThreads = 256;
inline constexpr uint32_t kPacksPerThread = 4;

// Compaction: a tile of elements per block; its block scan and look-back are paid once per tile.
// 256 * 8 divides the 2^20 elements of a block of a sparse update, as it must. Not yet measured.
inline constexpr int kTileThreads = 256;
inline constexpr int kTileItems = 8;

// Sparse updates: CUDA blocks that share the entries of one block of 2^20 elements. At 1 % density
// that is 10,486 entries, 5 a thread.
inline constexpr uint32_t kScatterThreads = 256;
inline constexpr uint32_t kScatterSplits = 8;

// Digest: one warp a chunk of 1 MiB, 4 warps a block.
inline constexpr uint32_t kDigestWarps = 4;

// Codecs: a team of threads per block of 2^20 elements. 1,024: a thread then classifies 1,024
// neighbours, and a scan over the entries of 1 % density takes ten rounds. Teams at once: two for
// each of an H200's 132 multiprocessors; more would only take scratch. Not yet measured.
inline constexpr int kTeamThreads = 1024;
inline constexpr uint32_t kMaxTeams = 264;

}  // namespace pulse::kernels
