// The versions of a training run, across its resumes: what was published before the run was killed
// and comes out again with the same bits is adopted, not published twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/config.h"
#include "app/joint_publisher.h"
#include "core/clock.h"
#include "core/log.h"
#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/version.h"

namespace pulse {

// All must outlive the publisher.
struct RunPublisherDeps {
  const RunConfig& config;
  const ModelSchema& schema;
  Communicator* group;  // of the first trainer's ranks, who share the work; null where it has one
  Filesystem& fs;
  Clock& clock;
  const kernels::KernelTable& kernels;
  Logger& log;
};

// How long the first trainer's ranks wait for each other between rounds: the first of them may be
// measuring the weights.
int64_t PublishTimeoutMs(const RunConfig& config);

// One on each rank of the first trainer: what the first of them publishes, the others Join. For one
// thread.
class RunPublisher {
 public:
  // The bucket (made if missing) and state folder of the configuration. Errors as of
  // JointPublisher::Open.
  static StatusOr<std::unique_ptr<RunPublisher>> Open(RunPublisherDeps deps);

  // The run goes on behind version `number` (0: from its start), which may not be the newest.
  void ContinueBehind(uint64_t number);

  // The weights after a round. Newer versions than where the run goes on are compared by digest:
  // equal ones are adopted; from the first that differs on, a new epoch starts, with an anchor.
  // Nothing comes back for one that retention took away before it could be compared.
  StatusOr<std::optional<Published>> Publish(const ViewSource& view, uint64_t round, bool final);

  // The first rank could not come as far as Publish. Returns `why`, or that the others are gone.
  Status Decline(const Status& why) { return publisher_->Decline(why); }
  // Other ranks: takes part in what the first one does.
  Status Join(const ViewSource& view) { return publisher_->Join(view).status(); }

  uint64_t last_number() const { return last_number_; }
  Store& store() { return *store_; }

 private:
  explicit RunPublisher(RunPublisherDeps deps) : deps_(deps) {}
  Status OpenPublisher();
  // Nothing: publish. A version without an id: it is not kept any more.
  StatusOr<std::optional<Published>> Adopt(const ViewSource& view, bool final);

  RunPublisherDeps deps_;
  std::unique_ptr<Store> store_;
  SystemNonces nonces_;
  std::unique_ptr<JointPublisher> publisher_;
  uint64_t last_number_ = 0;  // published or adopted
  uint64_t adopt_up_to_ = 0;  // the bucket's newest when the run went on
  bool anchor_ = false;       // with the next version
};

}  // namespace pulse
