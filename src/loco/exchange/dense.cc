#include "loco/exchange/dense.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"

namespace pulse::loco {
namespace {

// Elements added at a time: two such arrays stay in L2.
constexpr uint64_t kPieceElements = uint64_t{1} << 15;

// First element of rank r's chunk of `length` elements; r == ranks gives the end.
uint64_t ChunkBegin(uint64_t length, size_t r, size_t ranks) {
  return length * r / ranks;
}

// The canonical sum of the chunks that all ranks sent to their owner.
void SumChunks(const Sites& sites, std::span<const uint8_t> contributes,
               kernels::AddDenseFn add_dense, const std::vector<Bytes>& chunks,
               std::span<float> sum) {
  std::vector<float> addend(kPieceElements), site_sum(kPieceElements);
  for (uint64_t begin = 0; begin < sum.size(); begin += kPieceElements) {
    const uint64_t length = std::min<uint64_t>(kPieceElements, sum.size() - begin);
    FoldInOrder(sites, contributes, add_dense, std::span(site_sum).first(length),
                sum.subspan(begin, length), [&](uint32_t k, std::span<float> out) {
                  std::memcpy(addend.data(), chunks[k].data() + begin * sizeof(float),
                              length * sizeof(float));
                  add_dense(out, std::span(addend).first(length));
                });
  }
}

}  // namespace

uint64_t DenseExchange::Prepare(const Contribution& mine) {
  mine_ = mine;
  if (mine.absent()) return 0;
  const uint64_t elements = mine.sparse != nullptr ? mine.sparse->elements : mine.dense.size();
  return elements * sizeof(float);
}

std::span<const float> DenseExchange::MySegment(uint64_t begin, uint64_t length) {
  if (mine_.absent()) return {};
  if (mine_.sparse == nullptr) return mine_.dense.subspan(begin, length);
  scattered_.resize(length);
  DenseFromSparse(*mine_.sparse, begin / kSparseBlockElements, scattered_);
  return scattered_;
}

Status DenseExchange::SumSegment(std::span<const uint8_t> contributes, uint64_t begin,
                                 std::span<float> sum, Deadline deadline) {
  const size_t ranks = static_cast<size_t>(communicator_.size());
  const size_t me = static_cast<size_t>(communicator_.rank());
  const auto chunk = [&](auto elements, size_t r) {
    const uint64_t from = ChunkBegin(sum.size(), r, ranks);
    return elements.subspan(from, ChunkBegin(sum.size(), r + 1, ranks) - from);
  };
  const std::span<const float> mine = MySegment(begin, sum.size());
  std::vector<ByteView> to(ranks);
  for (size_t r = 0; r < ranks && !mine.empty(); ++r) to[r] = AsBytes(chunk(mine, r));
  std::vector<Bytes> received;
  PULSE_RETURN_IF_ERROR(communicator_.AllToAll(to, received, deadline));
  const std::span<float> owned = chunk(sum, me);
  for (size_t k = 0; k < ranks; ++k) {
    if (contributes[k] != 0 && received[k].size() != owned.size_bytes()) {
      return DataLoss("trainer {} sent {} bytes of a chunk of {}", k, received[k].size(),
                      owned.size_bytes());
    }
    if (k != me) traffic_.received += received[k].size();
    if (k != me) traffic_.sent += to[k].size() + owned.size_bytes();
  }
  SumChunks(sites_, contributes, kernels_.reduce.add_dense, received, owned);

  PULSE_RETURN_IF_ERROR(
      communicator_.AllGather(AsBytes(std::span<const float>(owned)), received, deadline));
  for (size_t r = 0; r < ranks; ++r) {
    const std::span<float> part = chunk(sum, r);
    if (received[r].size() != part.size_bytes()) {
      return DataLoss("rank {} sent {} bytes of a sum of {}", r, received[r].size(),
                      part.size_bytes());
    }
    if (r == me) continue;
    if (!part.empty()) std::memcpy(part.data(), received[r].data(), part.size_bytes());
    traffic_.received += part.size_bytes();
  }
  return OkStatus();
}

Status DenseExchange::Sum(std::span<const uint8_t> contributes, std::span<float> sum,
                          Deadline deadline) {
  traffic_ = {};
  for (uint64_t begin = 0; begin < sum.size(); begin += segment_elements_) {
    const uint64_t length = std::min<uint64_t>(segment_elements_, sum.size() - begin);
    PULSE_RETURN_IF_ERROR(SumSegment(contributes, begin, sum.subspan(begin, length), deadline));
  }
  return OkStatus();
}

}  // namespace pulse::loco
