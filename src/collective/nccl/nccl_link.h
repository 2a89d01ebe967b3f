// One NCCL communicator with its stream: groups of messages, awaited with a deadline. Internal to
// collective/nccl.
#pragma once

#include <memory>

#include "collective/nccl/nccl_table.h"
#include "core/clock.h"
#include "core/deadline.h"
#include "device/resources.h"

namespace pulse {

// `call` and NCCL's own text: kInternal when we misused NCCL, kUnavailable for the rest: a peer,
// the network or the device is gone.
Status NcclStatus(const NcclTable& nccl, NcclCode code, std::string_view call);

// A message in device memory. bytes > 0.
struct NcclMessage {
  enum class Kind { kSend, kReceive, kBroadcast } kind;
  int peer;  // or root
  void* at;
  uint64_t bytes;
};

// Not thread-safe. Everything it did is over when it is destroyed.
class NcclLink {
 public:
  // kDeadlineExceeded when not all ranks came.
  static StatusOr<std::unique_ptr<NcclLink>> Open(const DeviceDriver& device, const NcclTable& nccl,
                                                  Clock& clock, const NcclId& id, int ranks,
                                                  int rank, Deadline deadline);
  // Waits for finalize up to kLeaveTimeoutMs, else aborts.
  ~NcclLink();
  static constexpr int64_t kLeaveTimeoutMs = 5000;
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Enqueues the messages as one group, and records `done` behind them.
  Status Enqueue(std::span<const NcclMessage> messages, DeviceEvent done, Deadline deadline);
  // Until the event has happened; fails as soon as NCCL reports an error. kDeadlineExceeded without
  // text.
  Status Await(DeviceEvent event, Deadline deadline);
  // Ends everything under way. Afterwards the link is of no more use.
  void Abort();

  DeviceStream stream() const { return stream_.get(); }

 private:
  NcclLink(const DeviceDriver& device, const NcclTable& nccl, Clock& clock, OwnedStream stream)
      : device_(device), nccl_(nccl), clock_(clock), stream_(std::move(stream)) {}

  Status Issue(const NcclMessage& message);
  // After a call that may have returned kNcclInProgress.
  Status Settle(NcclCode code, std::string_view call, Deadline deadline);
  StatusOr<bool> IsSettled(std::string_view call);

  const DeviceDriver& device_;
  const NcclTable& nccl_;
  Clock& clock_;
  OwnedStream stream_;
  void* comm_ = nullptr;
};

}  // namespace pulse
