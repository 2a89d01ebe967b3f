#include "collective/split.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace pulse {
namespace {

class SplitCommunicator final : public Communicator {
 public:
  SplitCommunicator(std::unique_ptr<Communicator> inside, Communicator& across,
                    const SplitOptions& options)
      : inside_(std::move(inside)),
        across_(across),
        max_message_bytes_(options.max_message_bytes),
        members_(options.members) {
    for (int r = 0; r < across.size(); ++r) hosts_.push_back(across.HostOf(r));
  }

  int rank() const override { return across_.rank(); }
  int size() const override { return across_.size(); }
  const std::string& HostOf(int rank) const override { return across_.HostOf(rank); }
  uint64_t BytesReceived() const override { return bytes_received_; }

  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    const std::vector<ByteView> to(hosts_.size(), mine);
    return Guarded([&] { return Exchange(Operation::kAllGather, to, all, deadline); });
  }
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    return Guarded([&] { return Exchange(Operation::kAllToAll, to, from, deadline); });
  }
  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    return Guarded([&]() -> Status {
      const uint64_t bytes = root == rank() ? data.size() : 0;
      PULSE_RETURN_IF_ERROR(Meet(Operation::kBroadcast, root, bytes, deadline));
      PULSE_RETURN_IF_ERROR(across_.Broadcast(root, data, deadline));
      if (root != rank()) bytes_received_ += data.size();
      return OkStatus();
    });
  }
  Status Barrier(Deadline deadline) override {
    return Guarded([&] { return Meet(Operation::kBarrier, 0, 0, deadline); });
  }

 private:
  template <typename Body>
  Status Guarded(Body body) {
    if (!broken_.ok()) return broken_;
    try {
      broken_ = body();
    } catch (const std::bad_alloc&) {
      broken_ = ResourceExhausted("no memory for the messages that were announced");
    }
    return broken_;
  }

  Status Meet(Operation operation, int root, uint64_t largest_bytes, Deadline deadline) {
    CallHeader header;
    header.operation = operation;
    header.sequence = sequence_++;
    header.root = root;
    header.bytes = header.largest_bytes = largest_bytes;
    std::vector<Bytes> rows;
    PULSE_RETURN_IF_ERROR(
        across_.AllGather(AsBytes(std::span<const CallHeader>(&header, 1)), rows, deadline));
    std::vector<CallHeader> calls(rows.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].size() != sizeof(CallHeader)) {
        return DataLoss("rank {} sent a header of {} bytes", r, rows[r].size());
      }
      std::memcpy(&calls[r], rows[r].data(), sizeof(CallHeader));
    }
    return CheckCalls(calls, max_message_bytes_, hosts_);
  }

  Status Exchange(Operation operation, std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) {
    if (to.size() != hosts_.size()) {
      return InvalidArgument("{}: {} messages for {} ranks", NameOf(operation), to.size(),
                             hosts_.size());
    }
    uint64_t largest = 0;
    for (const ByteView message : to) largest = std::max<uint64_t>(largest, message.size());
    PULSE_RETURN_IF_ERROR(Meet(operation, 0, largest, deadline));
    std::vector<ByteView> within, beyond(to.begin(), to.end());
    for (const int member : members_) {
      ByteView& message = beyond[static_cast<size_t>(member)];
      within.push_back(std::exchange(message, ByteView()));
    }
    std::vector<Bytes> from_within, received;
    PULSE_RETURN_IF_ERROR(inside_->AllToAll(within, from_within, deadline));
    PULSE_RETURN_IF_ERROR(across_.AllToAll(beyond, received, deadline));
    for (size_t i = 0; i < members_.size(); ++i) {
      received[static_cast<size_t>(members_[i])] = std::move(from_within[i]);
    }
    for (size_t r = 0; r < received.size(); ++r) {
      if (static_cast<int>(r) != rank()) bytes_received_ += received[r].size();
    }
    from = std::move(received);
    return OkStatus();
  }

  std::unique_ptr<Communicator> inside_;
  Communicator& across_;
  const uint64_t max_message_bytes_;
  const std::vector<int> members_;
  std::vector<std::string> hosts_;
  uint64_t sequence_ = 0;
  uint64_t bytes_received_ = 0;
  Status broken_;
};

}  // namespace

StatusOr<std::unique_ptr<Communicator>> OpenSplitCommunicator(std::unique_ptr<Communicator> inside,
                                                              Communicator& across,
                                                              const SplitOptions& options) {
  const std::vector<int>& members = options.members;
  const bool in_range = std::ranges::all_of(
      members, [&](int member) { return member >= 0 && member < across.size(); });
  const bool ascending =
      std::ranges::adjacent_find(members, std::ranges::greater_equal()) == members.end();
  const auto mine = static_cast<size_t>(inside->rank());
  if (!in_range || !ascending || static_cast<size_t>(inside->size()) != members.size() ||
      mine >= members.size() || members[mine] != across.rank()) {
    return InvalidArgument("members of a site of {} ranks, of which rank {} of {} is {}",
                           inside->size(), across.rank(), across.size(), inside->rank());
  }
  return std::unique_ptr<Communicator>(
      std::make_unique<SplitCommunicator>(std::move(inside), across, options));
}

}  // namespace pulse
