// Versions that several ranks publish together: each encodes and uploads its share of the tensors
// as objects of its own, so that nothing is gathered, and the first rank writes manifest and head.
// The steps are those of sync/publish_part.h; between them the ranks tell each other how it went.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/checked.h"
#include "core/schema.h"
#include "sync/publisher.h"

namespace pulse {

// One rank, which reads of its view what CutIntoShards gives it. Publish (or Decline) on the first
// rank meets Join on the others; an error on any of them comes back on all, the head is as it was,
// and the next attempt starts anew. An error of the communicator breaks the group. Deterministic
// apart from nonces and times. For one thread.
class JointPublisher {
 public:
  // Not collective; the first rank opens the run (errors as of Publisher::Open), the others only
  // their share of its base, in rank-<n>/ below options.state_directory. group: null for one rank;
  // group, schema and deps must outlive this. options.ranges is set here; codec kAuto is kSmall
  // where there are several ranks. timeout_ms: of one wait for the others, whose slowest encodes
  // and uploads its share meanwhile.
  static StatusOr<std::unique_ptr<JointPublisher>> Open(Communicator* group,
                                                        const ModelSchema& schema,
                                                        PublisherOptions options,
                                                        PublisherDeps deps, int64_t timeout_ms);

  // First rank; view and options as of Publisher::Publish.
  StatusOr<Published> Publish(const ViewSource& view, const PublishOptions& options);
  // First rank: nothing is published this time, for this reason or none.
  Status Decline(const Status& why);
  // First rank: what the view hashes to, of all ranks' shares; before Publish or Decline.
  StatusOr<ViewDigests> Digests(const ViewSource& view);
  // Other ranks. Nothing comes back where the first rank declined.
  StatusOr<std::optional<Published>> Join(const ViewSource& view);

  // First rank: opens the run again, with a new epoch. On an error only Decline may be called.
  Status TakeOver();
  // First rank.
  Publisher& publisher() { return *publisher_; }

 private:
  struct Round;

  JointPublisher(Communicator* group, const ModelSchema& schema, PublisherOptions options,
                 PublisherDeps deps, int64_t timeout_ms);
  bool first() const { return rank_ == 0; }
  bool has_share() const { return rank_ < shares_.size(); }  // of several ranks
  PartOptions Part() const { return PartOf(options_, static_cast<uint32_t>(rank_)); }
  StatusOr<std::vector<Bytes>> Tell(const StatusOr<Bytes>& mine);
  // The first rank's words.
  StatusOr<Bytes> Hear(const StatusOr<Bytes>& mine);

  // The steps; each is collective.
  StatusOr<CombinedDigests> DigestsOfAll(const ViewSource& view);
  // rows: the shares' PartDigests.
  StatusOr<CombinedDigests> Combine(const std::vector<Bytes>& rows) const;
  StatusOr<Published> Run(Round& round);
  StatusOr<Bytes> RestoreBases(Round& round);
  Status AgreeOnBases(Round& round);
  Status Encode(Round& round);
  Status Upload(Round& round);
  StatusOr<Published> Finish(Round& round);

  std::optional<CheckedCommunicator> group_;
  const ModelSchema& schema_;
  PublisherOptions options_;
  PublisherDeps deps_;
  int64_t timeout_ms_;
  size_t rank_ = 0;
  std::vector<std::vector<TensorRange>> shares_;
  std::unique_ptr<Publisher> publisher_;  // first rank
  std::unique_ptr<FileLock> lock_;        // other ranks, as the next two
  std::unique_ptr<StagedBase> own_base_;
  std::optional<ChainReader> chain_;
  StagedBase& base() { return first() ? publisher_->base() : *own_base_; }
};

}  // namespace pulse
