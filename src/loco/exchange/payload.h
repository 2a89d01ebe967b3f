// The bytes of parts of sparse updates, as all exchanges that send such put them on the wire.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "loco/exchange/exchange.h"

namespace pulse::loco {

// How the bytes come about: the kernels of this rank, the codec and theta of the round; and, if
// somebody keeps it, what is known of theta's blocks.
struct PayloadCoding {
  PayloadCoding(const kernels::KernelTable& kernel_table, const AgreedRound& round,
                ClassesOfBlocks* classes_of_blocks = nullptr)
      : kernels(kernel_table), codec(round.codec), theta(round.theta), classes(classes_of_blocks) {}

  const kernels::KernelTable& kernels;
  UpdateCodec codec;
  std::span<const float> theta;
  ClassesOfBlocks* classes;

  // Of elements [begin, end); empty where the codec is told none.
  std::span<const float> ThetaOf(uint64_t begin, uint64_t end) const {
    return theta.empty() ? theta : theta.subspan(begin, end - begin);
  }
};

// What is known of theta's blocks, by segment: a stage of a segment keeps it for the next.
using ClassesBySegment = std::vector<ClassesOfBlocks>;

// Elements [begin, end) of a contribution. Nothing if it is absent or the range is empty.
Bytes EncodePayload(const PayloadCoding& coding, const Contribution& mine, uint64_t begin,
                    uint64_t end);

// What came from other ranks.
uint64_t BytesOfOthers(std::span<const Bytes> messages, int rank);

}  // namespace pulse::loco
