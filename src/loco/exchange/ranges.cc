#include "loco/exchange/ranges.h"

#include <algorithm>

#include "collective/chunk_plan.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kCacheLineElements = 16;
constexpr uint64_t kUnitsPerOwner = 16;  // at least: so ranges differ by a sixteenth at most

// Appends borders of pieces of `piece` elements behind `from`, up to and with `to`.
void AppendPieces(uint64_t from, uint64_t to, uint64_t piece, std::vector<uint64_t>& borders) {
  for (uint64_t at = from; at < to;) {
    at += std::min(piece, to - at);
    borders.push_back(at);
  }
}

// Of this trainer, by block.
std::vector<uint64_t> EntriesByBlock(const Contribution& mine, uint64_t elements) {
  std::vector<uint64_t> entries(SparseBlocksFor(elements));
  for (uint64_t b = 0; b < entries.size(); ++b) {
    if (mine.sparse != nullptr) {
      entries[b] = mine.sparse->starts[b + 1] - mine.sparse->starts[b];
    } else if (!mine.dense.empty()) {
      entries[b] = std::min(kSparseBlockElements, elements - b * kSparseBlockElements);
    }
  }
  return entries;
}

}  // namespace

uint64_t OwnerBegin(uint64_t length, uint64_t r, uint64_t owners) {
  uint64_t unit = 1;
  for (const uint64_t larger : {kCacheLineElements, kSparseBlockElements}) {
    if (length / larger >= kUnitsPerOwner * owners) unit = larger;
  }
  const uint64_t units = length / unit + (length % unit != 0 ? 1 : 0);
  return std::min(length, EvenShare(units, owners, r).offset * unit);
}

std::vector<uint64_t> CutEvenly(uint64_t elements, uint64_t bytes_per_element,
                                uint64_t memory_bytes) {
  uint64_t piece = std::max<uint64_t>(memory_bytes / bytes_per_element, 1);
  if (piece >= kSparseBlockElements) piece -= piece % kSparseBlockElements;
  std::vector<uint64_t> borders = {0};
  AppendPieces(0, elements, piece, borders);
  return borders;
}

std::vector<uint64_t> CutByEntries(uint64_t elements, std::span<const uint64_t> entries,
                                   uint32_t trainers, uint64_t bytes_per_element,
                                   uint64_t memory_bytes) {
  const auto bytes = [bytes_per_element](uint64_t of_entries, uint64_t of_elements) {
    return std::max(of_entries * kBytesPerSparseEntry, of_elements * bytes_per_element);
  };
  // In a block that is cut, every trainer may have an entry everywhere.
  const uint64_t piece = std::max<uint64_t>(memory_bytes / bytes(trainers, 1), 1);
  std::vector<uint64_t> borders = {0};
  uint64_t entries_here = 0;
  uint64_t at = 0;  // the last block's end
  for (const uint64_t of_block : entries) {
    const uint64_t end = std::min(at + kSparseBlockElements, elements);
    if (bytes(entries_here + of_block, end - borders.back()) > memory_bytes) {
      if (at > borders.back()) borders.push_back(at);
      entries_here = 0;
    }
    if (bytes(of_block, end - at) > memory_bytes) {
      AppendPieces(at, end, piece, borders);
    } else {
      entries_here += of_block;
    }
    at = end;
  }
  if (at > borders.back()) borders.push_back(at);
  return borders;
}

std::vector<uint64_t> CutFiner(const std::vector<uint64_t>& borders, uint64_t pieces) {
  const uint64_t blocks = (SparseBlocksFor(borders.back()) + pieces - 1) / pieces;
  std::vector<uint64_t> finer = {0};
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    AppendPieces(borders[i], borders[i + 1], std::max<uint64_t>(blocks, 1) * kSparseBlockElements,
                 finer);
  }
  return finer;
}

StatusOr<std::vector<uint64_t>> AgreeOnSegments(Communicator& communicator,
                                                const Contribution& mine, const AgreedRound& round,
                                                uint64_t elements, uint64_t bytes_per_element,
                                                uint64_t memory_bytes, Deadline deadline) {
  // As the sums of CutByEntries, which no array that fits a memory can make overflow.
  if (round.total_entries() * kBytesPerSparseEntry <= memory_bytes &&
      elements * bytes_per_element <= memory_bytes) {
    return std::vector<uint64_t>{0, elements};
  }
  std::vector<uint64_t> entries = EntriesByBlock(mine, elements);
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(
      communicator.AllGather(AsBytes(std::span<const uint64_t>(entries)), rows, deadline));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != entries.size() * sizeof(uint64_t)) {
      return DataLoss("rank {} sent entry counts of {} bytes, not {}", r, rows[r].size(),
                      entries.size() * sizeof(uint64_t));
    }
    if (static_cast<int>(r) == communicator.rank()) continue;
    for (size_t b = 0; b < entries.size(); ++b) {
      entries[b] += LoadLittle<uint64_t>(rows[r].data() + b * sizeof(uint64_t));
    }
  }
  return CutByEntries(elements, entries, static_cast<uint32_t>(communicator.size()),
                      bytes_per_element, memory_bytes);
}

}  // namespace pulse::loco
