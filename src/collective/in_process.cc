#include "collective/in_process.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

namespace pulse {
namespace {

// A deadline may run on a clock that no condition variable knows (a virtual one), so waits look at
// it again at least this often.
constexpr int64_t kRecheckNs = 20'000'000;

// What a rank brings to a call: its header, and for each rank what it sends there. One view stands
// for the same bytes to all; none sends nothing.
struct Offer {
  CallHeader header;
  std::span<const ByteView> to;

  ByteView For(size_t rank) const {
    if (to.empty()) return {};
    return to.size() == 1 ? to.front() : to[rank];
  }
};

// The meeting place of all ranks. Each call is Meet, then reading the others' offers without a
// lock, then Part; an offer stays readable until everyone has parted.
class Group {
 public:
  Group(size_t size, InProcessOptions options)
      : options_(std::move(options)), offers_(size), headers_(size), arrived_(size) {}

  size_t size() const { return offers_.size(); }
  const std::string& HostOf(int rank) const { return options_.hosts[static_cast<size_t>(rank)]; }
  const Offer& OfferOf(size_t rank) const { return offers_[rank]; }

  // OK once all ranks have made the same call. After anything else there is no Part.
  Status Meet(size_t rank, const Offer& offer, Deadline deadline);
  void Part();
  void Leave(size_t rank);

 private:
  Status TimedOut(const CallHeader& call, int64_t waited_for_ns);

  const InProcessOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Offer> offers_;
  std::vector<CallHeader> headers_;
  std::vector<bool> arrived_;
  size_t arrivals_ = 0;
  size_t departures_ = 0;
  uint64_t meetings_ = 0;
  uint64_t partings_ = 0;
  Status verdict_;  // on the last meeting
  Status broken_;
};

Status Group::Meet(size_t rank, const Offer& offer, Deadline deadline) {
  std::unique_lock lock(mutex_);
  PULSE_RETURN_IF_ERROR(broken_);
  const int64_t waited_for_ns = std::max<int64_t>(deadline.RemainingNs(), 0);
  offers_[rank] = offer;
  headers_[rank] = offer.header;
  arrived_[rank] = true;
  const uint64_t meeting = meetings_;
  if (++arrivals_ == size()) {
    arrivals_ = 0;
    std::fill(arrived_.begin(), arrived_.end(), false);
    ++meetings_;
    verdict_ = broken_ = CheckCalls(headers_, options_.max_message_bytes, options_.hosts);
    changed_.notify_all();
    return verdict_;
  }
  while (meetings_ == meeting && broken_.ok()) {
    if (deadline.Expired()) return TimedOut(offer.header, waited_for_ns);
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline.RemainingNs(), kRecheckNs)));
  }
  // A meeting that took place counts, whatever has broken since: the others may be reading from us.
  return meetings_ != meeting ? verdict_ : broken_;
}

void Group::Part() {
  std::unique_lock lock(mutex_);
  const uint64_t parting = partings_;
  if (++departures_ == size()) {
    departures_ = 0;
    ++partings_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return partings_ != parting; });
}

void Group::Leave(size_t rank) {
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return;
  broken_ =
      Unavailable("{} has left the group", NameRanks({static_cast<int>(rank)}, options_.hosts));
  changed_.notify_all();
}

Status Group::TimedOut(const CallHeader& call, int64_t waited_for_ns) {
  std::vector<int> missing;
  for (size_t r = 0; r < size(); ++r) {
    if (!arrived_[r]) missing.push_back(static_cast<int>(r));
  }
  broken_ = MissingRanks(call, missing, options_.hosts, waited_for_ns);
  changed_.notify_all();
  return broken_;
}

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, size_t rank)
      : group_(std::move(group)), rank_(rank) {}
  ~InProcessCommunicator() override { group_->Leave(rank_); }

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(group_->size()); }
  const std::string& HostOf(int rank) const override { return group_->HostOf(rank); }
  uint64_t BytesReceived() const override { return bytes_received_; }

  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    return Exchange({.operation = Operation::kAllGather, .largest_bytes = mine.size()}, {&mine, 1},
                    all, deadline);
  }

  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    PULSE_RETURN_IF_ERROR(broken_);
    if (to.size() != group_->size()) {
      return FailAlone(
          InvalidArgument("all-to-all: {} messages for {} ranks", to.size(), group_->size()));
    }
    uint64_t largest_bytes = 0;
    for (const ByteView view : to) largest_bytes = std::max<uint64_t>(largest_bytes, view.size());
    return Exchange({.operation = Operation::kAllToAll, .largest_bytes = largest_bytes}, to, from,
                    deadline);
  }

  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    const bool is_root = root == rank();
    const ByteView mine(data);
    std::vector<Bytes> from;
    PULSE_RETURN_IF_ERROR(Exchange({.operation = Operation::kBroadcast,
                                    .root = root,
                                    .largest_bytes = is_root ? mine.size() : 0},
                                   is_root ? std::span(&mine, 1) : std::span<const ByteView>(),
                                   from, deadline));
    if (!is_root) data = std::move(from[static_cast<size_t>(root)]);
    return OkStatus();
  }

  Status Barrier(Deadline deadline) override {
    std::vector<Bytes> nothing;
    return Exchange({.operation = Operation::kBarrier}, {}, nothing, deadline);
  }

 private:
  // The one call that all others are: from[r] becomes what rank r offers to this rank.
  Status Exchange(CallHeader header, std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) {
    PULSE_RETURN_IF_ERROR(broken_);
    header.sequence = sequence_++;
    broken_ = group_->Meet(rank_, {header, to}, deadline);
    if (!broken_.ok()) return broken_;
    std::vector<Bytes> received;
    const Status collected = Collect(header.operation, received);
    group_->Part();
    if (!collected.ok()) return FailAlone(collected);
    from = std::move(received);
    return OkStatus();
  }

  // Tells the others, who know nothing of this error, not to wait for this rank.
  Status FailAlone(Status status) {
    broken_ = std::move(status);
    group_->Leave(rank_);
    return broken_;
  }

  Status Collect(Operation operation, std::vector<Bytes>& received) try {
    received.resize(group_->size());
    for (size_t r = 0; r < received.size(); ++r) {
      if (r == rank_ && operation == Operation::kBroadcast) continue;  // root keeps what it has
      const ByteView view = group_->OfferOf(r).For(rank_);
      received[r].assign(view.begin(), view.end());
      if (r != rank_) bytes_received_ += view.size();
    }
    return OkStatus();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("{}: no memory for what the other ranks send", NameOf(operation));
  }

  std::shared_ptr<Group> group_;
  size_t rank_;
  uint64_t sequence_ = 0;
  uint64_t bytes_received_ = 0;
  Status broken_;
};

}  // namespace

StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeInProcessGroup(int size,
                                                                        InProcessOptions options) {
  if (size < 1) return InvalidArgument("a group has at least one rank, not {}", size);
  const size_t ranks = static_cast<size_t>(size);
  if (options.hosts.empty()) options.hosts.assign(ranks, "localhost");
  if (options.hosts.size() != ranks) {
    return InvalidArgument("{} host names for {} ranks", options.hosts.size(), size);
  }
  const auto group = std::make_shared<Group>(ranks, std::move(options));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t r = 0; r < ranks; ++r) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(group, r));
  }
  return communicators;
}

}  // namespace pulse
