// Faults at the doors: counts the operations that pass through decorators of a file system or
// store, and at chosen ones fails, delays, loses the answer, runs something else, or kills.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace pulse {

// Thrown in place of a process's death, and caught by tests alone: the one exception that crosses
// our interfaces. No std::exception, so that nothing else takes it for an ordinary error.
struct SimulatedKill {
  uint64_t operation = 0;
};

// What happens at one operation.
struct Fault {
  enum class When { kBefore, kAfter };
  enum class Action {
    kFail,     // `status` is the answer. Before: nothing happened. After: it did (a lost answer)
    kDelay,    // sleeps delay_ns on the injector's clock
    kCall,     // runs `call`, which may use what lies behind the decorators
    kKill,     // throws SimulatedKill; the injector is dead from then on
    kSilence,  // dead likewise, but nothing is thrown: for code with threads of its own
    kKillProcess,  // SIGKILL to this very process
  };

  uint64_t operation = 0;  // counted from 0
  std::string name;        // if not empty: all operations of this name, whatever their number
  When when = When::kBefore;
  Action action = Action::kFail;
  Status status = Unavailable("injected fault");
  int64_t delay_ns = 0;
  std::function<void()> call;

  static Fault FailBefore(uint64_t operation);
  static Fault LoseAnswer(uint64_t operation);  // it happened, but kUnavailable is returned
  static Fault KillBefore(uint64_t operation);
  static Fault KillAfter(uint64_t operation);
  static Fault Always(std::string name, Status status);  // a thing that does not work here
};

// One injector may serve several decorators, which then share the count. Thread-safe; the numbers
// are reproducible where the code under test is. Once dead (a process that was killed), operations
// do nothing and return kUnavailable, so that destructors which clean up change nothing either;
// what the code holds (locks, files) it lets go.
class FaultInjector {
 public:
  // The clock must outlive it.
  explicit FaultInjector(Clock& clock, std::vector<Fault> faults = {})
      : clock_(clock), faults_(std::move(faults)) {}

  // For decorators. Result: Status or StatusOr<T>. name: "fs.Rename"; subject: path or key.
  template <typename Call>
  auto Run(std::string_view name, std::string_view subject, Call call) -> decltype(call()) {
    uint64_t operation = 0;
    PULSE_RETURN_IF_ERROR(Begin(name, subject, operation));
    PULSE_RETURN_IF_ERROR(Apply(operation, name, Fault::When::kBefore));
    auto result = call();
    PULSE_RETURN_IF_ERROR(Apply(operation, name, Fault::When::kAfter));
    NoteResult(operation, StatusOf(result));
    return result;
  }

  uint64_t operations() const;
  bool dead() const;
  // "3 fs.Rename /a/.tmp-1 to /a/b: OK", one line each.
  std::string Log() const;
  // "kill before 3"; empty without faults.
  std::string Plan() const;

  // Runs `life` until it ends or is killed; true if it ended.
  bool Survives(const std::function<void()>& life);

 private:
  static const Status& StatusOf(const Status& status) { return status; }
  template <typename T>
  static const Status& StatusOf(const StatusOr<T>& result) {
    return result.status();
  }
  Status Begin(std::string_view name, std::string_view subject, uint64_t& operation);
  Status Apply(uint64_t operation, std::string_view name, Fault::When when);
  Status Die(uint64_t operation, const Fault& fault);
  void NoteResult(uint64_t operation, const Status& status);

  Clock& clock_;
  const std::vector<Fault> faults_;
  mutable std::mutex mutex_;
  std::vector<std::string> log_;  // guarded by mutex_
  bool dead_ = false;             // guarded by mutex_
};

using MakeFault = std::function<Fault(uint64_t operation)>;

// How many operations `run` does when nothing is injected.
uint64_t CountOperations(Clock& clock, const std::function<void(FaultInjector&)>& run);

// Calls `run` without faults, and then with each kind of fault at each of the operations counted
// there (say, {Fault::KillBefore, Fault::KillAfter}). `run` builds its world anew each time, and
// checks it. Returns the number of operations.
uint64_t ForEachFault(Clock& clock, const std::vector<MakeFault>& kinds,
                      const std::function<void(FaultInjector&)>& run);

}  // namespace pulse
