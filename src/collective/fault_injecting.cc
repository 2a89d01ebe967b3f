#include "collective/fault_injecting.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

namespace pulse {
namespace {

using When = CommunicatorFault::When;
using Action = CommunicatorFault::Action;

[[noreturn]] void HangForEver() {
  for (;;) ::pause();  // a handled signal ends one pause, not the hang
}

// Inverts one bit of the concatenation of `received`; nothing if it is empty.
void FlipBit(uint64_t bit, std::vector<Bytes*>& received) {
  uint64_t total_bits = 0;
  for (const Bytes* bytes : received) total_bits += bytes->size() * 8;
  if (total_bits == 0) return;
  bit %= total_bits;
  for (Bytes* bytes : received) {
    if (bit < bytes->size() * 8) {
      uint8_t& byte = (*bytes)[bit / 8];
      byte = static_cast<uint8_t>(byte ^ (1u << (bit % 8)));
      return;
    }
    bit -= bytes->size() * 8;
  }
}

}  // namespace

FaultInjectingCommunicator::FaultInjectingCommunicator(std::unique_ptr<Communicator> inner,
                                                       CommunicatorFaultPlan plan, Clock& clock)
    : inner_(std::move(inner)), plan_(std::move(plan)), clock_(clock) {}

Status FaultInjectingCommunicator::AllGather(ByteView mine, std::vector<Bytes>& all,
                                             Deadline deadline) {
  std::vector<Bytes> received;
  PULSE_RETURN_IF_ERROR(Run([&] { return inner_->AllGather(mine, received, deadline); }, received));
  all = std::move(received);
  return OkStatus();
}

Status FaultInjectingCommunicator::AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                                            Deadline deadline) {
  std::vector<Bytes> received;
  PULSE_RETURN_IF_ERROR(Run([&] { return inner_->AllToAll(to, received, deadline); }, received));
  from = std::move(received);
  return OkStatus();
}

Status FaultInjectingCommunicator::Broadcast(int root, Bytes& data, Deadline deadline) {
  std::vector<Bytes> received;
  const auto call = [&] {
    if (root == rank()) return inner_->Broadcast(root, data, deadline);
    Bytes incoming;
    const Status status = inner_->Broadcast(root, incoming, deadline);
    // In root's place, so that the bytes count as another rank's.
    received.resize(static_cast<size_t>(size()));
    if (status.ok()) received[static_cast<size_t>(root)] = std::move(incoming);
    return status;
  };
  PULSE_RETURN_IF_ERROR(Run(call, received));
  if (root != rank()) data = std::move(received[static_cast<size_t>(root)]);
  return OkStatus();
}

Status FaultInjectingCommunicator::Barrier(Deadline deadline) {
  std::vector<Bytes> nothing;
  return Run([&] { return inner_->Barrier(deadline); }, nothing);
}

template <typename Call>
Status FaultInjectingCommunicator::Run(Call call, std::vector<Bytes>& received) {
  PULSE_RETURN_IF_ERROR(broken_);
  const uint64_t operation = operations_++;
  broken_ = Strike(operation, When::kBefore);
  if (broken_.ok()) broken_ = call();
  if (broken_.ok()) {
    Corrupt(operation, received);
    broken_ = Strike(operation, When::kAfter);
  }
  return broken_;
}

Status FaultInjectingCommunicator::Strike(uint64_t operation, When when) {
  for (const CommunicatorFault& fault : plan_) {
    if (fault.operation != operation || fault.when != when) continue;
    switch (fault.action) {
      case Action::kFail:
        return fault.status;
      case Action::kDelay:
        clock_.SleepFor(fault.delay_ns);
        break;
      case Action::kCall:
        fault.call();
        break;
      case Action::kKillProcess:
        ::raise(SIGKILL);
        break;
      case Action::kHang:
        HangForEver();
      case Action::kFlipBit:
        break;  // Corrupt does it, once there is something
    }
  }
  return OkStatus();
}

void FaultInjectingCommunicator::Corrupt(uint64_t operation, std::vector<Bytes>& received) const {
  std::vector<Bytes*> from_others;
  for (size_t r = 0; r < received.size(); ++r) {
    if (static_cast<int>(r) != rank()) from_others.push_back(&received[r]);
  }
  for (const CommunicatorFault& fault : plan_) {
    if (fault.operation == operation && fault.action == Action::kFlipBit) {
      FlipBit(fault.bit, from_others);
    }
  }
}

}  // namespace pulse
