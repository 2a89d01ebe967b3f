#include "store/fault_injector.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

namespace pulse {
namespace {

std::string_view NameOf(Fault::Action action) {
  switch (action) {
    case Fault::Action::kFail:
      return "fail";
    case Fault::Action::kDelay:
      return "delay";
    case Fault::Action::kCall:
      return "call";
    case Fault::Action::kKill:
      return "kill";
    case Fault::Action::kSilence:
      return "silence";
    case Fault::Action::kKillProcess:
      return "kill the process";
  }
  return "?";
}

Fault Make(uint64_t operation, Fault::When when, Fault::Action action) {
  Fault fault;
  fault.operation = operation;
  fault.when = when;
  fault.action = action;
  return fault;
}

}  // namespace

Fault Fault::FailBefore(uint64_t operation) {
  return Make(operation, When::kBefore, Action::kFail);
}
Fault Fault::LoseAnswer(uint64_t operation) {
  return Make(operation, When::kAfter, Action::kFail);
}
Fault Fault::KillBefore(uint64_t operation) {
  return Make(operation, When::kBefore, Action::kKill);
}
Fault Fault::KillAfter(uint64_t operation) {
  return Make(operation, When::kAfter, Action::kKill);
}

Fault Fault::Always(std::string name, Status status) {
  Fault fault;
  fault.name = std::move(name);
  fault.status = std::move(status);
  return fault;
}

Status FaultInjector::Begin(std::string_view name, std::string_view subject, uint64_t& operation) {
  const std::lock_guard lock(mutex_);
  if (dead_) return Unavailable("{} {}: the process was killed", name, subject);
  operation = log_.size();
  log_.push_back(fmt::format("{} {} {}", operation, name, subject));
  return OkStatus();
}

Status FaultInjector::Apply(uint64_t operation, std::string_view name, Fault::When when) {
  for (const Fault& fault : faults_) {
    const bool here = fault.name.empty() ? fault.operation == operation : fault.name == name;
    if (!here || fault.when != when) continue;
    switch (fault.action) {
      case Fault::Action::kFail:
        NoteResult(operation, fault.status);
        return fault.status;
      case Fault::Action::kDelay:
        clock_.SleepFor(fault.delay_ns);
        break;
      case Fault::Action::kCall:
        fault.call();
        break;
      default:
        return Die(operation, fault);
    }
  }
  return OkStatus();
}

Status FaultInjector::Die(uint64_t operation, const Fault& fault) {
  if (fault.action == Fault::Action::kKillProcess) {
    ::kill(::getpid(), SIGKILL);
    while (true) ::pause();  // the signal may take a moment to arrive
  }
  {
    const std::lock_guard lock(mutex_);
    dead_ = true;
    log_[operation] += fault.when == Fault::When::kBefore ? ": killed before" : ": killed after";
  }
  if (fault.action == Fault::Action::kKill) throw SimulatedKill{operation};
  return Unavailable("killed at operation {}", operation);
}

void FaultInjector::NoteResult(uint64_t operation, const Status& status) {
  const std::lock_guard lock(mutex_);
  log_[operation] += ": " + status.ToString();
}

uint64_t FaultInjector::operations() const {
  const std::lock_guard lock(mutex_);
  return log_.size();
}

bool FaultInjector::dead() const {
  const std::lock_guard lock(mutex_);
  return dead_;
}

std::string FaultInjector::Log() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : log_) text += line + '\n';
  return text;
}

std::string FaultInjector::Plan() const {
  std::string text;
  for (const Fault& fault : faults_) {
    text +=
        fmt::format("{}{} {} {}", text.empty() ? "" : ", ", NameOf(fault.action),
                    fault.when == Fault::When::kBefore ? "before" : "after",
                    fault.name.empty() ? std::to_string(fault.operation) : "every " + fault.name);
  }
  return text;
}

bool FaultInjector::Survives(const std::function<void()>& life) {
  try {
    life();
  } catch (const SimulatedKill&) {
    return false;
  }
  return !dead();
}

uint64_t CountOperations(Clock& clock, const std::function<void(FaultInjector&)>& run) {
  FaultInjector counter(clock);
  run(counter);
  return counter.operations();
}

uint64_t ForEachFault(Clock& clock, const std::vector<MakeFault>& kinds,
                      const std::function<void(FaultInjector&)>& run) {
  const uint64_t operations = CountOperations(clock, run);
  for (uint64_t operation = 0; operation < operations; ++operation) {
    for (const MakeFault& make : kinds) {
      FaultInjector injector(clock, {make(operation)});
      run(injector);
    }
  }
  return operations;
}

}  // namespace pulse
