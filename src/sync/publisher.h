// Writes versions of a model to a bucket, so that at every moment the head names a complete one.
//
// Order: payload -> read back -> manifest -> staged base, durable -> head. Whatever fails or dies
// in between, the head still names the version before, and the next Publish continues from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/chain.h"
#include "sync/head.h"
#include "sync/manifest.h"
#include "sync/patch_writer.h"
#include "sync/staged_base.h"

namespace pulse {

struct PublisherOptions {
  std::string run = "main";
  // Where the base and this publisher's identity survive a restart; made if missing, locked while
  // open. Empty: the base is kept in memory, rebuilt from the bucket at Open, and every Open is a
  // takeover.
  std::string state_directory = "";
  bool take_over = false;  // raise the epoch even where the state would continue it
  bool single_writer =
      false;  // the caller promises to be alone, on a store without conditional puts
  int threads = 1;
  uint64_t memory_bytes = uint64_t{256}
                          << 20;  // of encoded blobs held; the rest spills to the state
  // An anchor comes with the version at which the deltas since the last one weigh more than this
  // share of an anchor: at 1 a newcomer never fetches more than twice what an anchor alone would
  // cost.
  double anchor_share = 1.0;
  uint64_t max_chain_length =
      64;  // and at the latest after so many, each a round trip for a newcomer
  bool read_back =
      true;  // fetch and hash every object; false trusts the store's answer for its size
  int64_t lock_timeout_ms = 10'000;
  std::shared_ptr<const SigningKey> signing_key = nullptr;
  std::string trusted_key = "";  // for what is read from the bucket, as in ChainOptions
};

// All must outlive the publisher.
struct PublisherDeps {
  Store& store;
  Filesystem& fs;
  const Clock& clock;
  NonceSource& nonces;
  const kernels::KernelTable& kernels;
  Logger& log;
};

struct PublishOptions {
  bool anchor = false;  // also write a full copy; needed when the schema changed
  std::map<std::string, std::string> metadata = {};
  std::function<void(uint64_t)> progress = {};  // bytes of the view scanned so far
};

struct Published {
  VersionRef ref;
  Manifest manifest;
};

// What all publishing ranks must agree on before they encode: made by the one that commits.
struct Attempt {
  VersionId id;
  bool anchor_asked = false;
  std::optional<VersionId> base;  // whose view the delta starts from; none: only an anchor
};

// One thread at a time. Errors leave the publisher usable unless they say otherwise: after kAborted
// (another publisher won or took over) it never publishes again.
class Publisher {
 public:
  // Takes the run over (raising the epoch, before any payload), or continues the epoch of this
  // state folder when the head says it is still its own. kFailedPrecondition: a store without
  // conditional puts and no single_writer; kAborted: lost the race for the epoch;
  // kDeadlineExceeded: the folder is in use.
  static StatusOr<std::unique_ptr<Publisher>> Open(PublisherOptions options, PublisherDeps deps);
  ~Publisher();

  // Publishes the next version, whole, from this process. Zero changes still make a version.
  // kFailedPrecondition: the schema differs from the last version's and options.anchor is not set.
  // kAborted: see above. kUnavailable, kDeadlineExceeded: not published, or (if it was the head's
  // swap that got no answer) perhaps published; the next call finds out.
  StatusOr<Published> Publish(const ViewSource& view, const PublishOptions& options);
  StatusOr<Published> Publish(const ModelView& view, const PublishOptions& options);

  // A version of the present chain that is still kept: a resumed trainer compares the digest with
  // what it recomputed and adopts it instead of publishing. kNotFound.
  StatusOr<Published> Find(uint64_t number);

  uint64_t epoch() const { return current_.head.epoch; }
  const std::optional<VersionRef>& head_version() const { return current_.head.version; }

  // The steps of Publish, for several publishing ranks. The rank that holds the Publisher calls
  // Begin, all ranks encode and upload their part (sync/publish_part.h), stage their bases, and
  // only then Commit.
  StatusOr<Attempt> Begin(const PublishOptions& options);
  // reason: why there is an anchor, or "". objects: all parts'.
  StatusOr<Published> Commit(const Attempt& attempt, const ModelSchema& schema,
                             const CombinedDigests& digests, std::vector<ManifestObject> objects,
                             std::string reason, const PublishOptions& options);
  // Whether this version is to have an anchor beside its delta, and why ("" if not).
  std::string AnchorReason(const Attempt& attempt, uint64_t delta_bytes, uint64_t view_bytes) const;

 private:
  Publisher(PublisherOptions options, PublisherDeps deps, ChainReader chain);
  Status Resolve();
  Status TakeOver(std::optional<HeadAt> current);
  Status RestoreBase();
  StatusOr<Published> PublishOnce(const ViewSource& view, const PublishOptions& options);

  PublisherOptions options_;
  PublisherDeps deps_;
  ChainReader chain_;
  std::unique_ptr<FileLock> lock_;
  bool conditional_ = true;
  std::string identity_;  // of our epoch
  HeadAt current_;
  std::optional<Manifest> tip_;  // of the head's version
  bool resolved_ = false;        // current_, tip_ and base_ are what the head says
  bool lost_ = false;
  StagedBase base_;
};

}  // namespace pulse
