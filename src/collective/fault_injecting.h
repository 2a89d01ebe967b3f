// Faults at the communicator's door: a decorator that fails, delays, corrupts, kills or hangs this
// rank at an operation given by its number, so that tests can enumerate every place to fail.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "core/clock.h"

namespace pulse {

// One thing that goes wrong. Operations are numbered from 0, over all calls on one communicator.
struct CommunicatorFault {
  enum class When { kBefore, kAfter };
  enum class Action {
    kFail,         // return `status`; before: the peers see this rank missing; after: they do not
    kDelay,        // sleep delay_ns on the clock, then go on
    kCall,         // run `call`, which may throw: a simulated death, for tests that catch it
    kKillProcess,  // SIGKILL to this very process
    kHang,         // block this thread for ever: a rank that lives and does not answer
    kFlipBit,      // invert bit `bit` (modulo their number) of what others sent, whatever `when`
  };

  uint64_t operation = 0;
  When when = When::kBefore;
  Action action = Action::kFail;
  Status status = absl::UnavailableError("injected fault");
  int64_t delay_ns = 0;
  std::function<void()> call = {};
  uint64_t bit = 0;
};

// Faults of one operation strike in the order of the list.
using CommunicatorFaultPlan = std::vector<CommunicatorFault>;

// Passes calls on to `inner`, with the plan's faults. Same threads and errors as `inner`; after an
// injected failure it is broken, as the contract says, and outputs keep their old values.
class FaultInjectingCommunicator final : public Communicator {
 public:
  // `clock` must outlive the communicator; only kDelay uses it.
  FaultInjectingCommunicator(std::unique_ptr<Communicator> inner, CommunicatorFaultPlan plan,
                             Clock& clock);

  // Operations begun so far. A run without faults tells how many there are to enumerate.
  uint64_t operations() const { return operations_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& HostOf(int rank) const override { return inner_->HostOf(rank); }
  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override;
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override;
  Status Broadcast(int root, Bytes& data, Deadline deadline) override;
  Status Barrier(Deadline deadline) override;
  uint64_t BytesReceived() const override { return inner_->BytesReceived(); }

 private:
  template <typename Call>
  Status Run(Call call, std::vector<Bytes>& received);
  Status Strike(uint64_t operation, CommunicatorFault::When when);
  void Corrupt(uint64_t operation, std::vector<Bytes>& received) const;

  std::unique_ptr<Communicator> inner_;
  CommunicatorFaultPlan plan_;
  Clock& clock_;
  uint64_t operations_ = 0;
  Status broken_;
};

}  // namespace pulse
