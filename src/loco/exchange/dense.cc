#include "loco/exchange/dense.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "loco/exchange/ranges.h"

namespace pulse::loco {
namespace {

// Elements added at a time: two such arrays stay in L2.
constexpr uint64_t kPieceElements = uint64_t{1} << 15;

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

std::span<const float> DenseExchange::SegmentOf(const Contribution& mine, uint64_t begin,
                                                uint64_t length) {
  if (mine.absent()) return {};
  if (mine.sparse == nullptr) return mine.dense.subspan(begin, length);
  scattered_.resize(length);
  DenseFromSparse(*mine.sparse, begin, scattered_);
  return scattered_;
}

Status DenseExchange::SumSegment(const Contribution& contribution,
                                 std::span<const uint8_t> contributes, uint64_t begin,
                                 std::span<float> sum, Deadline deadline) {
  const size_t ranks = static_cast<size_t>(communicator_.size());
  const size_t me = static_cast<size_t>(communicator_.rank());
  const auto chunk = [&](auto elements, size_t r) {
    const uint64_t from = OwnerBegin(sum.size(), r, ranks);
    return elements.subspan(from, OwnerBegin(sum.size(), r + 1, ranks) - from);
  };
  const std::span<const float> mine = SegmentOf(contribution, begin, sum.size());
  traffic_.contribution += mine.size_bytes();
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

Status DenseExchange::Sum(const Contribution& mine, const AgreedRound& round, std::span<float> sum,
                          Deadline deadline) {
  traffic_ = {};
  const auto borders = CutEvenly(sum.size(), kBytesPerDenseElement, memory_bytes_);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    PULSE_RETURN_IF_ERROR(SumSegment(mine, round.contributes, borders[i],
                                     sum.subspan(borders[i], borders[i + 1] - borders[i]),
                                     deadline));
  }
  return OkStatus();
}

}  // namespace pulse::loco
