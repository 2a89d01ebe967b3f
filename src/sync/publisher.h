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
#include "sync/codec_choice.h"
#include "sync/head.h"
#include "sync/manifest.h"
#include "sync/publish_part.h"
#include "sync/staged_base.h"

namespace pulse {

struct PublisherOptions {
  std::string run = "main";
  // Where the base and this publisher's identity survive a restart; made if missing, locked while
  // open. Empty: every Open takes the run over, and the base is a copy in memory, rebuilt from the
  // bucket at Open; or with kInBucket it is read from there, cell by cell, for each version.
  std::string state_directory = "";
  BaseKeeping base = BaseKeeping::kCopy;
  bool take_over = false;  // raise the epoch even where the state would continue it
  bool single_writer =
      false;  // the caller promises to be alone, on a store without conditional puts
  // What this rank publishes when there are several; empty: everything, and Publish() may be used.
  std::vector<TensorRange> ranges = {};
  // kAuto, which Publish() settles for each version: what followers are ready with soonest, by the
  // times of both codecs on a sample and the rate of the last upload.
  CodecSetting codec = CodecSetting::kAuto;
  int threads = 1;
  uint64_t memory_bytes = uint64_t{256} << 20;  // of encoded blobs; the rest spills to the state
  // An anchor comes with the version at which the deltas since the last one weigh more than this
  // share of an anchor: at 1 a newcomer never fetches much more than twice what an anchor alone
  // would cost.
  double anchor_share = 1.0;
  uint64_t max_chain_length = 64;  // and at the latest after so many, each a round trip or two
  bool read_back = true;           // as in PartOptions
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

// In the metadata of a version of CodecSetting::kAuto: why it has its codec.
inline constexpr char kCodecReasonKey[] = "codec.reason";

// What a publishing rank does of each version: its ranges of all parts.
PartOptions PartOf(const PublisherOptions& options, uint32_t part);

// For one thread. An error leaves the publisher usable, except kAborted: another publisher won or
// took over, and this one never publishes again.
class Publisher {
 public:
  // Takes the run over (raising the epoch, before any payload), or continues the epoch of this
  // state folder when the head says that it is still its own. kFailedPrecondition: a store without
  // conditional puts and no single_writer, or a folder of another run; kAborted: lost the race for
  // the epoch; kDeadlineExceeded: the folder is in use.
  static StatusOr<std::unique_ptr<Publisher>> Open(PublisherOptions options, PublisherDeps deps);
  ~Publisher();

  // Publishes the next version, whole, from this process. Zero changes still make a version.
  // kFailedPrecondition: the schema differs from the last version's and options.anchor is not set.
  // kAborted: see above. Other errors: not published; or, if it was the answer to the head's swap
  // that was lost (kUnavailable), perhaps published, which the next call finds out.
  StatusOr<Published> Publish(const ViewSource& view, const PublishOptions& options);
  StatusOr<Published> Publish(const ModelView& view, const PublishOptions& options);

  // A version of the present chain that is still kept: a resumed trainer compares its digest with
  // what it recomputed, and adopts it instead of publishing again. kNotFound.
  StatusOr<Published> Find(uint64_t number);

  uint64_t epoch() const { return current_.head.epoch; }
  const std::optional<VersionRef>& head_version() const { return current_.head.version; }

  // The steps of Publish, for several publishing ranks; see sync/publish_part.h. Begin finds out
  // where the run stands; schema: of the view that is to be published. Where another rank has no
  // base, the caller clears attempt.base and sets its anchor_reason to "base lost".
  StatusOr<Attempt> Begin(const ModelSchema& schema, const PublishOptions& options);
  StagedBase& base() { return base_; }  // of this rank
  // kDataLoss: the base that was encoded against is not the last version's; encode without one.
  Status CheckBase(const Attempt& attempt, const CombinedDigests& digests) const;
  // Why this version has an anchor beside its delta; "" if it has none.
  std::string AnchorReason(const Attempt& attempt, const CombinedDigests& digests,
                           uint64_t view_bytes) const;
  // kDataLoss: the base that the delta starts from is not the last version's; publish an anchor.
  StatusOr<Published> WriteManifest(const Attempt& attempt, const ModelSchema& schema,
                                    const CombinedDigests& digests,
                                    std::vector<ManifestObject> objects,
                                    const std::string& anchor_reason,
                                    const PublishOptions& options);
  Status Commit(const Published& version);

 private:
  Publisher(PublisherOptions options, PublisherDeps deps, ChainReader chain);
  Status OpenState();
  Status TakeOver(const std::optional<HeadAt>& current);
  Status Resolve();
  Status FindBase();
  void NoteUpload(const std::vector<ManifestObject>& objects, int64_t took_ns);
  StatusOr<EncodedPart> Encode(Attempt& attempt, const ViewSource& view, PublishOptions& described);
  StatusOr<CodecDecision> Choose(const ViewSource& before, const ViewSource& after) const;

  PublisherOptions options_;
  PublisherDeps deps_;
  ChainReader chain_;
  std::unique_ptr<FileLock> lock_;
  bool conditional_ = true;
  std::string identity_;         // of our epoch, as the head has it
  HeadAt current_;               // the head as we know it
  std::optional<Manifest> tip_;  // of the head's version; none if it is damaged
  StagedBase base_;
  double link_bytes_per_s_ = 0;  // of the last upload that was long enough to tell; 0: none
  bool resolved_ = false;        // current_, tip_ and base_ are what the head says
  bool lost_ = false;
  std::vector<std::string> unanswered_;  // nonces of our swaps whose outcome was unknown
};

}  // namespace pulse
