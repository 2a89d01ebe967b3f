// A Communicator whose messages all go through the calls on device memory: for tests, so that the
// one conformance suite runs over those calls too.
#pragma once

#include "collective/device_communicator.h"
#include "device/work.h"

namespace pulse {

// Not thread-safe. All references must outlive it.
class DeviceMessages final : public Communicator {
 public:
  DeviceMessages(DeviceCommunicator& communicator, DeviceWork& work)
      : communicator_(communicator), work_(work) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  const std::string& HostOf(int rank) const override { return communicator_.HostOf(rank); }
  uint64_t BytesReceived() const override { return communicator_.BytesReceived(); }
  Status Barrier(Deadline deadline) override { return communicator_.Barrier(deadline); }

  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    PULSE_ASSIGN_OR_RETURN(const auto sent, Up({&mine, 1}, deadline));
    std::vector<DeviceMessage> received;
    PULSE_RETURN_IF_ERROR(
        communicator_.AllGatherOnDevice(sent.front(), ready_.get(), Inbox(), received, deadline));
    return Down(received, all, deadline);
  }
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    PULSE_ASSIGN_OR_RETURN(const auto sent, Up(to, deadline));
    std::vector<DeviceMessage> received;
    PULSE_RETURN_IF_ERROR(
        communicator_.AllToAllOnDevice(sent, ready_.get(), Inbox(), received, deadline));
    return Down(received, from, deadline);
  }
  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    const ByteView view = data;
    PULSE_ASSIGN_OR_RETURN(const auto sent, Up({&view, 1}, deadline));
    DeviceMessage message = sent.front();
    PULSE_RETURN_IF_ERROR(
        communicator_.BroadcastOnDevice(root, &message, ready_.get(), Inbox(), deadline));
    if (root == rank()) return OkStatus();
    std::vector<Bytes> all;
    PULSE_RETURN_IF_ERROR(Down({message}, all, deadline));
    data = std::move(all.front());
    return OkStatus();
  }

 private:
  // Enqueued only: the communicator waits for the event.
  StatusOr<std::vector<DeviceMessage>> Up(std::span<const ByteView> messages, Deadline deadline) {
    if (!ready_.get().handle) {
      PULSE_ASSIGN_OR_RETURN(ready_, OwnedEvent::Open(work_.driver()));
    }
    uint64_t bytes = 0;
    for (const ByteView message : messages) bytes += message.size();
    PULSE_ASSIGN_OR_RETURN(const auto room, outbox_.Get<uint8_t>(work_.driver(), bytes));
    std::vector<DeviceMessage> sent;
    uint64_t at = 0;
    for (const ByteView message : messages) {
      const auto place = room.subspan(at, message.size());
      PULSE_RETURN_IF_ERROR(work_.Up(message, place, deadline));
      sent.push_back(place);
      at += message.size();
    }
    PULSE_RETURN_IF_ERROR(
        work_.Did(work_.driver().record(ready_.get(), work_.stream()), "recording an event"));
    return sent;
  }
  DeviceInbox Inbox() {
    return [this](uint64_t bytes) { return inbox_.Get<uint8_t>(work_.driver(), bytes); };
  }
  Status Down(const std::vector<DeviceMessage>& messages, std::vector<Bytes>& out,
              Deadline deadline) {
    std::vector<Bytes> taken;
    for (const DeviceMessage& message : messages) {
      taken.emplace_back(message.size);
      PULSE_RETURN_IF_ERROR(work_.Down<uint8_t>(message, std::span(taken.back()), deadline));
    }
    out = std::move(taken);
    return OkStatus();
  }

  DeviceCommunicator& communicator_;
  DeviceWork& work_;
  OwnedEvent ready_;
  DeviceRoom outbox_, inbox_;
};

}  // namespace pulse
