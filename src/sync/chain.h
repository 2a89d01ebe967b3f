// The read side of a run: from the head, by hashes, to the objects that make a version.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/store.h"
#include "sync/head.h"
#include "sync/manifest.h"
#include "sync/patch.h"

namespace pulse {

struct ChainOptions {
  std::string run = "main";
  std::string trusted_key = "";  // 64 hexadecimal digits; when set, unsigned manifests are refused
  int fetch_threads = 4;         // of one Fetch; each holds two pieces of 8 MiB
};

// A version that a reader already has.
struct LocalVersion {
  VersionId id;
  Digest digest;
};

struct PlanStep {
  Manifest manifest;
  PayloadRole role = PayloadRole::kDelta;  // which of its payloads to take
};

// How to get to a version: over the local one (from_local) or from an anchor, which is then the
// first step. Without steps the reader is there already.
struct Plan {
  VersionRef target;
  Digest target_digest;
  bool from_local = false;
  std::vector<PlanStep> steps;
  uint64_t bytes = 0;  // of all objects to be fetched
};

// Verified manifests are kept, so that a continuous reader loads each once. Not thread-safe.
//
// Retention may remove what a plan needs before it is fetched: that is kNotFound, and the caller
// plans again from the head.
class ChainReader {
 public:
  static StatusOr<ChainReader> Open(Store& store, ChainOptions options);

  // kNotFound: the run has no head. kDataLoss: it is damaged.
  StatusOr<HeadAt> Head();

  // Checked against its hash, its own rules and the trusted key.
  StatusOr<Manifest> Load(const VersionRef& ref);

  // The manifests from `from` back to the oldest that is still kept (or until `stop` says true),
  // newest first. Each is checked against its successor.
  StatusOr<std::vector<Manifest>> Walk(const VersionRef& from,
                                       const std::function<StatusOr<bool>(const Manifest&)>& stop);

  // The cheapest way, in bytes, to version `number` (nullopt: the newest). kNotFound: no such
  // version is kept, or nothing is published yet. kFailedPrecondition: the bucket is behind
  // `local`, or holds another history than the one that `local` came from.
  StatusOr<Plan> PlanTo(std::optional<uint64_t> number, const std::optional<LocalVersion>& local);

  // Streams an object through `sink` in order, in pieces, and checks size and SHA-256: only when
  // this returns OK were the bytes the right ones.
  Status Fetch(const Manifest& manifest, const ManifestObject& object,
               const std::function<Status(ByteView)>& sink);

  Store& store() { return *store_; }
  const std::string& run() const { return options_.run; }

 private:
  ChainReader(Store& store, ChainOptions options) : store_(&store), options_(std::move(options)) {}
  StatusOr<Manifest> Read(const VersionRef& ref);

  Store* store_;
  ChainOptions options_;
  std::map<std::string, Manifest> loaded_;  // by SHA-256
};

// kFailedPrecondition if a head that names `head` would take a reader back from `seen`, or sideways
// into another history. A reader that remembers what it has seen notices when a whole bucket is
// rolled back.
Status CheckNotBehind(const VersionId& head, const VersionId& seen);

// kDataLoss unless the file says of itself what the manifest says of it.
Status CheckPayload(const Manifest& manifest, PayloadRole role, const PayloadFile& file);

// A chain of payload views, bottom to top, and what they stand on.
struct ChainView {
  std::vector<std::unique_ptr<PayloadView>> layers;
  const ViewSource* top = nullptr;  // the base when there are no layers
};

// Stacks the steps of a plan. open: gives the bytes of one object of one step (a fetched file, or
// ObjectSource). base: the local version's view, iff plan.from_local; it must outlive the result.
StatusOr<ChainView> StackPlan(const kernels::KernelTable& kernels, const Plan& plan,
                              const ViewSource* base,
                              const std::function<StatusOr<std::shared_ptr<const ByteSource>>(
                                  const PlanStep&, const ManifestObject&)>& open);

}  // namespace pulse
