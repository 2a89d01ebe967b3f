// Whole chains from one format into another: every version in turn, through one rolling copy.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "store/filesystem.h"
#include "sync/chain.h"
#include "sync/checkpoint.h"
#include "sync/foreign/formats.h"
#include "sync/publisher.h"

namespace pulse {

// A version, made.
struct ChainVersion {
  uint64_t number = 0;
  std::string path;  // of the checkpoint
  Digest digest;     // of its view
  std::map<std::string, std::string> metadata;
};

// Where a chain comes from. Not thread-safe.
class ChainInput {
 public:
  virtual ~ChainInput() = default;
  // The number of versions, oldest first.
  virtual size_t size() const = 0;
  // Writes version i as a checkpoint at `path` (or names one that is there already). The versions
  // are asked for in order; before: the view of version i - 1 with its digest, null for the first.
  // on_bytes: bytes of the view made so far.
  virtual StatusOr<ChainVersion> Make(size_t i, const std::string& path, const ViewSource* before,
                                      const Digest& before_digest,
                                      const std::function<void(uint64_t)>& on_bytes) = 0;
};

// All versions of a native run that are kept and can be rebuilt. kNotFound: there are none. All
// references must outlive the input.
StatusOr<std::unique_ptr<ChainInput>> OpenNativeChain(Store& store, Filesystem& fs,
                                                      const kernels::KernelTable& kernels,
                                                      const ChainOptions& options);

struct ForeignChainOptions {
  std::string prefix;          // in the store: empty or ending in "/"
  std::string base;            // path of the receiver's own model; empty: none
  uint64_t decoder_bytes = 0;  // as ForeignReadOptions
};

// All versions of a foreign chain, from its oldest full one, or from the base where the format
// starts from it.
StatusOr<std::unique_ptr<ChainInput>> OpenForeignChain(Store& store, Filesystem& fs,
                                                       std::shared_ptr<const ForeignFormat> format,
                                                       const ForeignChainOptions& options);

// Where a chain goes to. Not thread-safe.
class ChainOutput {
 public:
  virtual ~ChainOutput() = default;
  // before: null for the first version.
  virtual Status Add(const ChainVersion& version, const ViewSource* before,
                     const Digest& before_digest, const ViewSource& view) = 0;
};

struct ForeignOutputOptions {
  std::string folder;         // made if it is missing
  std::string spool_path;     // of temporary files: the beginning of their paths
  uint64_t memory_bytes = 0;  // of encoded bytes; the rest goes to temporary files
};

// Writes files of a foreign format into a folder, and nothing else.
std::unique_ptr<ChainOutput> MakeForeignOutput(Filesystem& fs, ForeignChoice choice,
                                               ForeignOutputOptions options);

// Publishes each version. The publisher must outlive the output.
std::unique_ptr<ChainOutput> MakeNativeOutput(Publisher& publisher);

struct ConvertResult {
  size_t versions = 0;
  uint64_t first = 0;  // numbers in the source
  uint64_t last = 0;
  Digest digest;            // of the last view
  uint64_t view_bytes = 0;  // of the last view
};

struct ConvertOptions {
  std::string work;  // an empty folder for the rolling copy, of which two may be there at once
  // Bytes of views made so far, and of all versions (0 before the first is made).
  std::function<void(uint64_t, uint64_t)> progress = {};
  std::function<bool()> stop = {};  // asked between versions; true: kCancelled
};

// Takes every version from `input` to `output`.
StatusOr<ConvertResult> ConvertChain(Filesystem& fs, ChainInput& input, ChainOutput& output,
                                     const ConvertOptions& options);

}  // namespace pulse
