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
      : reader_(coding.kernels, coding.codec, end - begin, coding.ThetaOf(begin, end)),
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

}  // namespace

Status FoldPayloads(const PayloadCoding& coding, const Sites& sites, const FoldInput& in,
                    uint64_t begin, std::span<float> sum) {
  if (sum.empty()) return OkStatus();
  UpdatesOfRange updates(coding, in, begin, begin + sum.size());
  PULSE_RETURN_IF_ERROR(updates.Open(in));
  std::vector<float> site_sum(
      sites.size() > 1 ? std::min<uint64_t>(sum.size(), kSparseBlockElements) : 0);
  Status status;
  for (uint64_t b = 0; b < SparseBlocksFor(sum.size()) && status.ok(); ++b) {
    const uint64_t first = b * kSparseBlockElements;
    const uint64_t length = std::min<uint64_t>(kSparseBlockElements, sum.size() - first);
    FoldInOrder(sites, in.contributes, coding.kernels.reduce.add_dense,
                std::span(site_sum).first(site_sum.empty() ? 0 : length),
                sum.subspan(first, length), [&](uint32_t k, std::span<float> out) {
                  if (!status.ok()) return;
                  const auto entries = updates.Read(k, b);
                  status = entries.status();
                  if (!status.ok()) return;
                  coding.kernels.reduce.add_sparse(out, entries->positions, entries->values);
                });
  }
  return status;
}

}  // namespace pulse::loco
