// What opens communicators of some ranks of a job whose ranks are threads.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collective/in_process.h"
#include "core/status.h"

namespace pulse {

// As TrainingDeps::open_group, of one job: ranks that name the same members get one group.
class InProcessGroups {
 public:
  // Once a rank and group.
  StatusOr<std::unique_ptr<Communicator>> Open(int rank, const std::vector<int>& members) {
    const std::lock_guard lock(mutex_);
    auto& group = groups_[members];
    if (group.empty()) {
      PULSE_ASSIGN_OR_RETURN(group, MakeInProcessGroup(static_cast<int>(members.size())));
    }
    const auto at = std::find(members.begin(), members.end(), rank);
    return std::move(group[static_cast<size_t>(at - members.begin())]);
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::vector<std::unique_ptr<Communicator>>> groups_;
};

}  // namespace pulse
