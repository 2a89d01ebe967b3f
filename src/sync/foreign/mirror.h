// A foreign copy of what a publisher publishes, kept beside it: the same version numbers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/filesystem.h"
#include "store/store.h"
#include "sync/foreign/formats.h"
#include "sync/manifest.h"

namespace pulse {

struct ForeignMirrorOptions {
  std::string prefix;           // empty or ending in "/"
  std::string spool_path = "";  // beginning of temporary files' paths; empty: memory only
  uint64_t memory_bytes = uint64_t{64} << 20;
};

// One version is encoded before it is published, so that what the format can't carry stops both,
// and written once the publisher's head names it. A version that was published but not written
// here is made good by a full one next time. For one thread.
class ForeignMirror {
 public:
  // store, fs and the views given to Encode must outlive the mirror.
  ForeignMirror(Store& store, Filesystem& fs, ForeignChoice choice, ForeignMirrorOptions options);

  // number: of the version that will be published. before: the version before, null without one.
  // kUnimplemented names the tensor that can't be carried. kFailedPrecondition: the prefix holds
  // that version or a later one already.
  Status Encode(uint64_t number, const ViewSource* before, const ViewSource& view,
                const std::function<void(uint64_t)>& progress);

  // Writes what was encoded, as published; where the format allows it, a full copy beside the
  // change where the publisher made one. kInternal unless it is the version that was encoded.
  Status Write(const Manifest& published);

  std::string_view format() const { return choice_.format->name(); }
  const std::string& prefix() const { return options_.prefix; }
  bool full() const { return full_; }        // what was written is (also) a full version
  uint64_t bytes() const { return bytes_; }  // written

 private:
  Status Put(const EncodedForeignVersion& encoded, const Manifest& published);

  Store& store_;
  Filesystem& fs_;
  ForeignChoice choice_;
  ForeignMirrorOptions options_;
  const ViewSource* view_ = nullptr;
  std::unique_ptr<EncodedForeignVersion> encoded_;
  uint64_t number_ = 0;
  uint64_t spools_ = 0;
  bool full_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace pulse
