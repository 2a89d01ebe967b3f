#include "loco/trainer_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.h"

namespace pulse::loco {
namespace {

constexpr uint64_t kMostSegmentElements = uint64_t{1} << 24;  // longer messages are no faster

// What an element of a segment may take on a rank: sealed for and received from each of the ranks,
// and its sum.
uint64_t BytesPerElement(uint32_t ranks) {
  return sizeof(float) * (2 * uint64_t{ranks} + 2);
}

// The part of a shard that is exchanged in the segment of `length` at `at`; may be empty.
ElementRange SegmentOf(ElementRange shard, uint64_t at, uint64_t length) {
  const uint64_t begin = std::min(shard.begin + at, shard.end);
  return {begin, std::min(begin + length, shard.end)};
}

}  // namespace

void TreeSum::Add(std::vector<float>&& leaf) {
  std::vector<float> sum = std::move(leaf);
  size_t level = 0;
  for (; level < levels_.size() && !levels_[level].empty(); ++level) {
    add_(levels_[level], sum);
    sum = std::exchange(levels_[level], {});
  }
  if (level == levels_.size()) levels_.emplace_back();
  levels_[level] = std::move(sum);
}

std::vector<float> TreeSum::Finish() {
  std::vector<float> sum = levels_.empty() ? std::vector<float>() : std::move(levels_.back());
  levels_.clear();
  return sum;
}

StatusOr<std::vector<Digest>> GatherDigests(Communicator& group, std::span<const Digest> mine,
                                            Deadline deadline) {
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(group.AllGather(AsBytes(mine), all, deadline));
  std::vector<Digest> digests;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() % sizeof(Digest) != 0) {
      return DataLoss("rank {} of the trainer sent {} bytes of digests", r, all[r].size());
    }
    const size_t before = digests.size();
    digests.resize(before + all[r].size() / sizeof(Digest));
    if (!all[r].empty()) std::memcpy(&digests[before], all[r].data(), all[r].size());
  }
  return digests;
}

TrainerRanks::TrainerRanks(Communicator* group, std::vector<ElementRange> shards,
                           kernels::AddDenseFn add, uint64_t memory_bytes)
    : group_(group), shards_(std::move(shards)), add_(add) {
  if (group_ == nullptr) return;
  for (const ElementRange& shard : shards_) longest_ = std::max(longest_, shard.length());
  shard_ = static_cast<uint32_t>(group_->rank());
  segment_elements_ =
      std::clamp<uint64_t>(memory_bytes / BytesPerElement(ranks()), 1, kMostSegmentElements);
}

StatusOr<bool> TrainerRanks::All(bool mine, Deadline deadline) {
  if (group_ == nullptr) return mine;
  const uint8_t byte = mine ? 1 : 0;
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(group_->AllGather({&byte, 1}, all, deadline));
  return std::all_of(all.begin(), all.end(),
                     [](const Bytes& theirs) { return theirs == Bytes{1}; });
}

Status TrainerRanks::Gather(std::span<const float> shard, std::span<float> whole,
                            Deadline deadline) {
  std::vector<Bytes> all;
  for (uint64_t at = 0; at < longest_; at += segment_elements_) {
    const ElementRange mine = SegmentOf(range(), at, segment_elements_);
    PULSE_RETURN_IF_ERROR(group_->AllGather(
        AsBytes(shard.subspan(mine.begin - range().begin, mine.length())), all, deadline));
    for (uint32_t r = 0; r < ranks(); ++r) {
      const ElementRange theirs = SegmentOf(shards_[r], at, segment_elements_);
      if (all[r].size() != theirs.length() * sizeof(float)) {
        return DataLoss("rank {} of the trainer sent {} bytes of its shard, not {}", r,
                        all[r].size(), theirs.length() * sizeof(float));
      }
      if (!all[r].empty()) std::memcpy(&whole[theirs.begin], all[r].data(), all[r].size());
    }
  }
  return OkStatus();
}

Status TrainerRanks::ReduceScatter(std::span<const float> whole, std::span<float> shard,
                                   Deadline deadline) {
  std::vector<Bytes> from;
  for (uint64_t at = 0; at < longest_; at += segment_elements_) {
    std::vector<ByteView> to;
    for (uint32_t r = 0; r < ranks(); ++r) {
      const ElementRange theirs = SegmentOf(shards_[r], at, segment_elements_);
      to.push_back(AsBytes(whole.subspan(theirs.begin, theirs.length())));
    }
    PULSE_RETURN_IF_ERROR(group_->AllToAll(to, from, deadline));
    const ElementRange mine = SegmentOf(range(), at, segment_elements_);
    TreeSum sum(add_);
    for (uint32_t r = 0; r < ranks(); ++r) {
      if (from[r].size() != mine.length() * sizeof(float)) {
        return DataLoss("rank {} of the trainer sent {} bytes of a gradient, not {}", r,
                        from[r].size(), mine.length() * sizeof(float));
      }
      std::vector<float> leaf(mine.length());
      if (!leaf.empty()) std::memcpy(leaf.data(), from[r].data(), from[r].size());
      Bytes().swap(from[r]);
      sum.Add(std::move(leaf));
    }
    const std::vector<float> total = sum.Finish();
    std::copy(total.begin(), total.end(),
              shard.begin() + static_cast<ptrdiff_t>(mine.begin - range().begin));
  }
  return OkStatus();
}

}  // namespace pulse::loco
