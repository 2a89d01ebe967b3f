#include "loco/exchange/payload_fold.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codec/updates_reader.h"

namespace pulse::loco {
namespace {

// The updates of a range, block by block and trainer by trainer.
class UpdatesOfRange {
 public:
  UpdatesOfRange(const PayloadCoding& coding, const FoldInput& in, uint64_t begin, uint64_t end)
      : reader_(coding.kernels, coding.codec, end - begin, coding.ThetaOf(begin, end),
                coding.classes),
        numbers_(in.payloads.size()),
        me_(in.me) {
    if (in.contributes[me_] != 0 && in.mine.HasBlocksOf(begin, end)) {
      mine_.emplace(SparseUpdateView(*in.mine.sparse).Part(begin, end));
    }
  }

  Status Open(const FoldInput& in) {
    for (size_t k = 0; k < numbers_.size(); ++k) {
      if (in.contributes[k] == 0 || IsMine(k)) continue;
      const auto number = reader_.Add(in.payloads[k]);
      if (!number.ok()) return OfTrainer(k, number.status());
      numbers_[k] = *number;
    }
    return OkStatus();
  }

  StatusOr<SparseEntries> Read(size_t k, uint64_t b) {
    if (IsMine(k)) return mine_->Block(b);
    auto entries = reader_.Read(numbers_[k], b);
    if (!entries.ok()) return OfTrainer(k, entries.status());
    return entries;
  }

 private:
  bool IsMine(size_t k) const { return k == me_ && mine_.has_value(); }
  static Status OfTrainer(size_t k, const Status& status) {
    return Annotate(status, fmt::format("update of trainer {}", k));
  }

  UpdatesReader reader_;
  std::vector<size_t> numbers_;  // of the reader's updates, by trainer
  size_t me_;
  std::optional<SparseUpdateView> mine_;
};

// Elements added up at a time, of all trainers: they stay in a core's cache.
constexpr uint64_t kPieceElements = uint64_t{1} << 15;

// Of a trainer's entries of a block, those that have not been added yet.
struct Rest {
  SparseEntries entries;

  SparseEntries TakeBelow(uint32_t end) {
    const auto positions = entries.positions;
    const auto count = static_cast<size_t>(
        std::lower_bound(positions.begin(), positions.end(), end) - positions.begin());
    const SparseEntries taken = {positions.first(count), entries.values.first(count)};
    entries = {positions.subspan(count), entries.values.subspan(count)};
    return taken;
  }
};

// Overwrites `sum`, a block.
void FoldBlock(const kernels::ReduceBody& reduce, const Sites& sites,
               std::span<const uint8_t> contributes, std::span<Rest> rests,
               std::span<float> site_sum, std::span<float> sum) {
  for (uint64_t begin = 0; begin < sum.size(); begin += kPieceElements) {
    const uint64_t length = std::min(kPieceElements, sum.size() - begin);
    const auto end = static_cast<uint32_t>(begin + length);
    FoldInOrder(sites, contributes, reduce.add_dense,
                site_sum.subspan(site_sum.empty() ? 0 : begin, site_sum.empty() ? 0 : length),
                sum.subspan(begin, length), [&](uint32_t k, std::span<float> out) {
                  // Positions are the block's.
                  const SparseEntries entries = rests[k].TakeBelow(end);
                  reduce.add_sparse({out.data() - begin, end}, entries.positions, entries.values);
                });
  }
}

}  // namespace

Status FoldPayloads(const PayloadCoding& coding, const Sites& sites, const FoldInput& in,
                    uint64_t begin, std::span<float> sum) {
  if (sum.empty()) return OkStatus();
  UpdatesOfRange updates(coding, in, begin, begin + sum.size());
  PULSE_RETURN_IF_ERROR(updates.Open(in));
  std::vector<float> site_sum(
      sites.size() > 1 ? std::min<uint64_t>(sum.size(), kSparseBlockElements) : 0);
  std::vector<Rest> rests(in.payloads.size());
  for (uint64_t b = 0; b < SparseBlocksFor(sum.size()); ++b) {
    for (size_t k = 0; k < rests.size(); ++k) {
      if (in.contributes[k] == 0) continue;
      PULSE_ASSIGN_OR_RETURN(rests[k].entries, updates.Read(k, b));
    }
    const uint64_t first = b * kSparseBlockElements;
    FoldBlock(coding.kernels.reduce, sites, in.contributes, rests, site_sum,
              sum.subspan(first, std::min<uint64_t>(kSparseBlockElements, sum.size() - first)));
  }
  return OkStatus();
}

}  // namespace pulse::loco
