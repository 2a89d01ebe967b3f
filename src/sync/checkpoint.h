// Safetensors checkpoints on disk: a single file, or a Hugging Face folder with an index.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/safetensors.h"
#include "core/digest.h"
#include "core/view.h"
#include "store/filesystem.h"
#include "sync/staged_file.h"
#include "sync/view.h"

namespace pulse {

// The metadata key under which names of tied tensors are kept: a JSON object, further name -> name.
inline constexpr char kAliasesKey[] = "pulse.aliases";

// The weight map of a Hugging Face index: tensor name -> file name, a plain name in the same
// folder. `where` stands in messages. kDataLoss for anything else, hostile names included.
StatusOr<std::map<std::string, std::string>> ParseCheckpointIndex(ByteView text,
                                                                  const std::string& where);

// Takes the alias table out of a file's metadata; empty if there is none. kDataLoss if it is
// malformed.
StatusOr<std::map<std::string, std::string>> TakeAliases(
    std::map<std::string, std::string>& metadata);
// `metadata` with the schema's alias table put in, if it has aliases.
std::map<std::string, std::string> WithAliases(std::map<std::string, std::string> metadata,
                                               const ModelSchema& schema);

// A checkpoint opened for reading: mapped, never copied. Not copyable; the view lives as long as it
// does.
class Checkpoint {
 public:
  // path: a .safetensors file; or a folder with model.safetensors.index.json, or else with
  // model.safetensors. kNotFound; kDataLoss for a malformed file or index, an index that names a
  // file outside its folder, or one that disagrees with the files.
  static StatusOr<std::unique_ptr<Checkpoint>> Open(Filesystem& fs, const std::string& path);

  const ModelSchema& schema() const { return schema_; }
  const ModelView& view() const { return view_; }
  // Of a single file; of a folder, what all files agree on. Without kAliasesKey.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  Checkpoint() = default;
  Status AddFile(Filesystem& fs, const std::string& path);
  Status AddFolder(Filesystem& fs, const std::string& folder);
  Status Finish();

  struct Piece {
    TensorSpec spec;
    ByteView bytes;
  };
  std::vector<std::unique_ptr<ReadableFile>> files_;
  std::vector<Piece> pieces_;                   // until Finish()
  std::map<std::string, std::string> aliases_;  // until Finish()
  ModelSchema schema_;
  ModelView view_;
  std::map<std::string, std::string> metadata_;
};

// Writes a new checkpoint file front to back and digests it on the way: beside the name first,
// moved there when everything holds. Not thread-safe. Dropped without Commit() it removes what it
// wrote.
class CheckpointWriter {
 public:
  // metadata must not have kAliasesKey; it is written from the schema. The schema must outlive the
  // writer.
  static StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      Filesystem& fs, const std::string& path, const ModelSchema& schema,
      const std::map<std::string, std::string>& metadata);

  // The tensors in the order in which the file wants them (indices into the schema).
  const std::vector<size_t>& order() const { return order_; }

  // The next bytes of the file, in pieces of any size; a piece may not cross into the next tensor.
  // kInvalidArgument for too many bytes.
  Status Append(ByteView bytes);

  // All bytes are there and on disk: their digests. kFailedPrecondition when some are missing.
  StatusOr<ViewDigests> Finish();

  // After Finish(): replaces `path` atomically and durably.
  Status Commit();

 private:
  CheckpointWriter(std::string path, const ModelSchema& schema);
  void CloseTensors();

  std::string path_;
  const ModelSchema& schema_;
  std::vector<size_t> order_;
  std::unique_ptr<StagedFile> file_;
  size_t current_ = 0;      // into order_
  uint64_t in_tensor_ = 0;  // bytes of it already written
  TensorDigester digester_;
  ViewDigests digests_;
};

struct WriteCheckpointOptions {
  std::map<std::string, std::string> metadata = {};
  // When set, the file is put in place only if the bytes have this digest: else kDataLoss.
  std::optional<Digest> expected = {};
  // Called after each cell with the bytes written so far.
  std::function<void(uint64_t)> progress = {};
  int threads = 1;  // that read cells; at most two cells wait for each
};

// Streams a whole view into a new file at `path`, cell by cell. Atomic and durable.
StatusOr<ViewDigests> WriteCheckpoint(Filesystem& fs, const std::string& path,
                                      const ViewSource& view,
                                      const WriteCheckpointOptions& options);

}  // namespace pulse
