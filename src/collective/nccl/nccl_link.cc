#include "collective/nccl/nccl_link.h"

#include "device/poll.h"

namespace pulse {

Status NcclStatus(const NcclTable& nccl, NcclCode code, std::string_view call) {
  if (code == 0) return OkStatus();
  const bool ours = code == kNcclInvalidArgument || code == kNcclInvalidUsage;
  return MakeError(ours ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable,
                   "{}: {} (NCCL error {})", call, nccl.describe(code), code);
}

StatusOr<std::unique_ptr<NcclLink>> NcclLink::Open(const DeviceDriver& device,
                                                   const NcclTable& nccl, Clock& clock,
                                                   const NcclId& id, int ranks, int rank,
                                                   Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(OwnedStream stream, OwnedStream::Open(device));
  // Not make_unique: the constructor is private.
  std::unique_ptr<NcclLink> link(new NcclLink(device, nccl, clock, std::move(stream)));
  const NcclCode code = nccl.init(&link->comm_, ranks, id, rank);
  const Status status = link->Settle(code, "ncclCommInitRankConfig", deadline);
  if (status.ok()) return link;
  link->Abort();
  if (!absl::IsDeadlineExceeded(status)) return status;
  return DeadlineExceeded("some of {} ranks did not open an NCCL communicator in time", ranks);
}

NcclLink::~NcclLink() {
  if (!comm_) return;
  const Deadline deadline = Deadline::After(clock_, kLeaveTimeoutMs);
  if (Settle(nccl_.finalize(comm_), "ncclCommFinalize", deadline).ok()) {
    nccl_.destroy(comm_);
    comm_ = nullptr;
  }
  Abort();
}

void NcclLink::Abort() {
  if (comm_) nccl_.abort(comm_);
  comm_ = nullptr;
}

Status NcclLink::Enqueue(std::span<const NcclMessage> messages, DeviceEvent done,
                         Deadline deadline) {
  if (!messages.empty()) {
    PULSE_RETURN_IF_ERROR(NcclStatus(nccl_, nccl_.group_start(), "ncclGroupStart"));
    Status issued;
    for (const NcclMessage& message : messages) {
      issued = Issue(message);
      if (!issued.ok()) break;
    }
    // A group that was begun is ended, whatever became of it: it is state of the thread.
    const NcclCode code = nccl_.group_end();
    PULSE_RETURN_IF_ERROR(issued);
    PULSE_RETURN_IF_ERROR(Settle(code, "ncclGroupEnd", deadline));
  }
  return DeviceStatus(device_, device_.record(done, stream_.get()), "recording an event");
}

Status NcclLink::Issue(const NcclMessage& m) {
  switch (m.kind) {
    case NcclMessage::Kind::kSend:
      return NcclStatus(nccl_, nccl_.send(m.at, m.bytes, m.peer, comm_, stream_.get()), "ncclSend");
    case NcclMessage::Kind::kReceive:
      return NcclStatus(nccl_, nccl_.receive(m.at, m.bytes, m.peer, comm_, stream_.get()),
                        "ncclRecv");
    case NcclMessage::Kind::kBroadcast:
      return NcclStatus(nccl_, nccl_.broadcast(m.at, m.bytes, m.peer, comm_, stream_.get()),
                        "ncclBroadcast");
  }
  return Internal("a message of no kind");
}

Status NcclLink::Await(DeviceEvent event, Deadline deadline) {
  const auto happened = [&]() -> StatusOr<bool> {
    PULSE_RETURN_IF_ERROR(IsSettled("NCCL transfer").status());
    return HasHappened(device_, event);
  };
  return PollUntil(happened, deadline, clock_);
}

Status NcclLink::Settle(NcclCode code, std::string_view call, Deadline deadline) {
  if (code != kNcclInProgress) return NcclStatus(nccl_, code, call);
  return PollUntil([&] { return IsSettled(call); }, deadline, clock_);
}

StatusOr<bool> NcclLink::IsSettled(std::string_view call) {
  NcclCode state = 0;
  PULSE_RETURN_IF_ERROR(
      NcclStatus(nccl_, nccl_.async_error(comm_, &state), "ncclCommGetAsyncError"));
  if (state == kNcclInProgress) return false;
  PULSE_RETURN_IF_ERROR(NcclStatus(nccl_, state, call));
  return true;
}

}  // namespace pulse
