#include "collective/split.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace pulse {
namespace {

// Base: Communicator or DeviceCommunicator; inside is one too.
template <typename Base>
class SplitCommunicator : public Base {
 public:
  SplitCommunicator(std::unique_ptr<Base> inside, Communicator& across, const SplitOptions& options)
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

 protected:
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

  // Meet for a message a rank.
  template <typename Message>
  Status MeetWith(Operation operation, std::span<const Message> to, Deadline deadline) {
    if (to.size() != hosts_.size()) {
      return InvalidArgument("{}: {} messages for {} ranks", NameOf(operation), to.size(),
                             hosts_.size());
    }
    uint64_t largest = 0;
    for (const Message& message : to) largest = std::max<uint64_t>(largest, SizeOf(message));
    return Meet(operation, 0, largest, deadline);
  }

  // Takes those of this site out of `messages`, by rank.
  template <typename Message>
  std::vector<Message> TakeWithin(std::vector<Message>& messages) const {
    std::vector<Message> within;
    for (const int member : members_) {
      within.push_back(std::exchange(messages[static_cast<size_t>(member)], Message()));
    }
    return within;
  }

  Status Exchange(Operation operation, std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) {
    PULSE_RETURN_IF_ERROR(MeetWith(operation, to, deadline));
    std::vector<ByteView> beyond(to.begin(), to.end());
    const std::vector<ByteView> within = TakeWithin(beyond);
    std::vector<Bytes> from_within, received;
    PULSE_RETURN_IF_ERROR(across_.AllToAll(beyond, received, deadline));
    PULSE_RETURN_IF_ERROR(inside_->AllToAll(within, from_within, deadline));
    for (size_t i = 0; i < members_.size(); ++i) {
      received[static_cast<size_t>(members_[i])] = std::move(from_within[i]);
    }
    for (size_t r = 0; r < received.size(); ++r) {
      if (static_cast<int>(r) != rank()) bytes_received_ += received[r].size();
    }
    from = std::move(received);
    return OkStatus();
  }

  static uint64_t SizeOf(ByteView message) { return message.size(); }
  static uint64_t SizeOf(DeviceMessage message) { return message.size; }

  std::unique_ptr<Base> inside_;
  Communicator& across_;
  const uint64_t max_message_bytes_;
  const std::vector<int> members_;
  std::vector<std::string> hosts_;
  uint64_t sequence_ = 0;
  uint64_t bytes_received_ = 0;
  Status broken_;
};

class DeviceSplit final : public SplitCommunicator<DeviceCommunicator> {
 public:
  DeviceSplit(std::unique_ptr<DeviceCommunicator> inside, Communicator& across, DeviceWork work,
              const SplitOptions& options)
      : SplitCommunicator(std::move(inside), across, options), work_(std::move(work)) {}

  Status AllGatherOnDevice(DeviceMessage mine, DeviceEvent ready, const DeviceInbox& inbox,
                           std::vector<DeviceMessage>& all, Deadline deadline) override {
    const std::vector<DeviceMessage> to(hosts_.size(), mine);
    return Guarded(
        [&] { return ExchangeOnDevice(Operation::kAllGather, to, ready, inbox, all, deadline); });
  }
  Status AllToAllOnDevice(std::span<const DeviceMessage> to, DeviceEvent ready,
                          const DeviceInbox& inbox, std::vector<DeviceMessage>& from,
                          Deadline deadline) override {
    return Guarded(
        [&] { return ExchangeOnDevice(Operation::kAllToAll, to, ready, inbox, from, deadline); });
  }
  Status BroadcastOnDevice(int root, DeviceMessage* data, DeviceEvent ready,
                           const DeviceInbox& inbox, Deadline deadline) override {
    Bytes bytes;
    if (root == rank()) {
      PULSE_RETURN_IF_ERROR(Guarded([&] { return Bring(*data, ready, bytes, deadline); }));
    }
    PULSE_RETURN_IF_ERROR(Broadcast(root, bytes, deadline));
    if (root == rank()) return OkStatus();
    return Guarded([&]() -> Status {
      PULSE_ASSIGN_OR_RETURN(const DeviceSpan<uint8_t> room, inbox(bytes.size()));
      PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint8_t>(bytes), room, deadline));
      *data = room;
      return work_.Wait(deadline);
    });
  }

 private:
  static constexpr uint64_t kAlignment = 16;  // of what lies in an inbox

  static uint64_t Aligned(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  Status Bring(DeviceMessage message, DeviceEvent ready, Bytes& bytes, Deadline deadline) {
    if (ready.handle != nullptr) {
      PULSE_RETURN_IF_ERROR(
          work_.Did(work_.driver().wait(work_.stream(), ready), "waiting for a message"));
    }
    bytes.resize(message.size);
    return work_.Down<uint8_t>(message, std::span(bytes), deadline);
  }

  // Across first, so that the inbox can be asked for once, for all.
  Status ExchangeOnDevice(Operation operation, std::span<const DeviceMessage> to, DeviceEvent ready,
                          const DeviceInbox& inbox, std::vector<DeviceMessage>& from,
                          Deadline deadline) {
    PULSE_RETURN_IF_ERROR(MeetWith(operation, to, deadline));
    std::vector<DeviceMessage> beyond(to.begin(), to.end());
    const std::vector<DeviceMessage> within = TakeWithin(beyond);
    std::vector<Bytes> crossed;
    PULSE_RETURN_IF_ERROR(Cross(beyond, ready, crossed, deadline));
    uint64_t crossed_bytes = 0;
    for (const Bytes& message : crossed) crossed_bytes += Aligned(message.size());
    DeviceSpan<uint8_t> room;
    const auto shared_inbox = [&](uint64_t bytes) -> StatusOr<DeviceSpan<uint8_t>> {
      PULSE_ASSIGN_OR_RETURN(room, inbox(crossed_bytes + bytes));
      if (room.size < crossed_bytes + bytes) {
        return Internal("an inbox of {} bytes for {}", room.size, crossed_bytes + bytes);
      }
      return room.subspan(crossed_bytes, bytes);
    };
    std::vector<DeviceMessage> from_within;
    PULSE_RETURN_IF_ERROR(
        inside_->AllToAllOnDevice(within, ready, shared_inbox, from_within, deadline));
    std::vector<DeviceMessage> received(to.size());
    uint64_t at = 0;
    for (size_t r = 0; r < crossed.size(); ++r) {
      const auto place = room.subspan(at, crossed[r].size());
      PULSE_RETURN_IF_ERROR(work_.Up(std::span<const uint8_t>(crossed[r]), place, deadline));
      received[r] = place;
      at += Aligned(crossed[r].size());
    }
    PULSE_RETURN_IF_ERROR(work_.Wait(deadline));
    for (size_t i = 0; i < members_.size(); ++i) {
      received[static_cast<size_t>(members_[i])] = from_within[i];
    }
    for (size_t r = 0; r < received.size(); ++r) {
      if (static_cast<int>(r) != rank()) bytes_received_ += received[r].size;
    }
    from = std::move(received);
    return OkStatus();
  }

  // The messages of other sites over the host. One that goes to several is brought there once.
  Status Cross(std::span<const DeviceMessage> to, DeviceEvent ready, std::vector<Bytes>& from,
               Deadline deadline) {
    std::vector<Bytes> brought(to.size());
    std::vector<ByteView> messages(to.size());
    size_t last = 0;
    for (size_t r = 0; r < to.size(); ++r) {
      if (to[r].size == 0) continue;
      if (to[r].data != to[last].data || to[r].size != brought[last].size()) {
        last = r;
        PULSE_RETURN_IF_ERROR(Bring(to[r], ready, brought[r], deadline));
      }
      messages[r] = brought[last];
    }
    return across_.AllToAll(messages, from, deadline);
  }

  DeviceWork work_;
};

Status CheckMembers(const Communicator& inside, const Communicator& across,
                    const std::vector<int>& members) {
  const bool in_range = std::ranges::all_of(
      members, [&](int member) { return member >= 0 && member < across.size(); });
  const bool ascending =
      std::ranges::adjacent_find(members, std::ranges::greater_equal()) == members.end();
  const auto mine = static_cast<size_t>(inside.rank());
  if (in_range && ascending && static_cast<size_t>(inside.size()) == members.size() &&
      mine < members.size() && members[mine] == across.rank()) {
    return OkStatus();
  }
  return InvalidArgument("members of a site of {} ranks, of which rank {} of {} is {}",
                         inside.size(), across.rank(), across.size(), inside.rank());
}

}  // namespace

StatusOr<std::unique_ptr<Communicator>> OpenSplitCommunicator(std::unique_ptr<Communicator> inside,
                                                              Communicator& across,
                                                              const SplitOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckMembers(*inside, across, options.members));
  return std::unique_ptr<Communicator>(
      std::make_unique<SplitCommunicator<Communicator>>(std::move(inside), across, options));
}

StatusOr<std::unique_ptr<DeviceCommunicator>> OpenDeviceSplit(
    std::unique_ptr<DeviceCommunicator> inside, Communicator& across, DeviceWork work,
    const SplitOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckMembers(*inside, across, options.members));
  return std::unique_ptr<DeviceCommunicator>(
      std::make_unique<DeviceSplit>(std::move(inside), across, std::move(work), options));
}

}  // namespace pulse
