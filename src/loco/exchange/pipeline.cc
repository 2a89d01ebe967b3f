#include "loco/exchange/pipeline.h"

#include <future>
#include <utility>

namespace pulse::loco {

// A work and a thread that mostly waits for the network share the cores well. In turn t stage k has
// segment t - k, so between two transfers of a segment there is one of the next, in which its work
// can be done.
Status RunPipeline(size_t segments, std::span<const Stage> stages,
                   const std::function<Status(size_t segment, Messages received)>& last) {
  if (segments == 0) return OkStatus();
  using Made = std::future<StatusOr<Messages>>;
  const auto policy = segments > 1 ? std::launch::async : std::launch::deferred;
  // made[k]: what the next transfer of stage k sends. Returning early waits for all works: their
  // futures' destructors do.
  std::vector<Made> made(stages.size());
  std::future<Status> lasting;
  made[0] = std::async(policy, stages[0].work, 0, Messages());
  for (size_t turn = 0; turn + 1 < segments + stages.size(); ++turn) {
    Made next;  // of stage k: from the transfer before, so it waits until that of this turn is out
    if (turn + 1 < segments) next = std::async(policy, stages[0].work, turn + 1, Messages());
    for (size_t k = 0; k < stages.size(); ++k) {
      const bool has_segment = turn >= k && turn - k < segments;
      Made mine = std::exchange(made[k], std::exchange(next, {}));
      if (!has_segment) continue;
      const size_t segment = turn - k;
      PULSE_ASSIGN_OR_RETURN(Messages sent, mine.get());
      PULSE_ASSIGN_OR_RETURN(Messages received, stages[k].transfer(std::move(sent)));
      if (k + 1 < stages.size()) {
        next = std::async(policy, stages[k + 1].work, segment, std::move(received));
        continue;
      }
      if (lasting.valid()) PULSE_RETURN_IF_ERROR(lasting.get());
      lasting = std::async(policy, last, segment, std::move(received));
    }
  }
  return lasting.get();
}

}  // namespace pulse::loco
