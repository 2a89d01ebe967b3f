// The folder of a run's training checkpoints: what lies where, what counts, what may go.
//
//   <folder>/round-000000000010/commit.json
//   <folder>/round-000000000010/trainer-00000-shard-00000-of-00001.safetensors ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/status.h"
#include "loco/checkpoint/commit_record.h"
#include "store/filesystem.h"

namespace pulse::loco {

// As one rank sees it: the folder may be shared by all ranks, or be each host's own; then every
// host has a commit record beside its own ranks' parts. Not thread-safe.
class CheckpointFolder {
 public:
  // fs must outlive this.
  CheckpointFolder(Filesystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string OfRound(uint64_t round) const;

  // Rounds that have a folder, ascending; empty if there is none.
  StatusOr<std::vector<uint64_t>> Rounds() const;
  // kNotFound: not committed; kDataLoss: damaged.
  StatusOr<CommitRecord> ReadCommit(uint64_t round) const;
  // All or nothing and durable. Every rank of a folder may write the same record; `writer` keeps
  // their temporary files apart.
  Status WriteCommit(const CommitRecord& record, const PartId& writer) const;

  // Takes a round's commit record away first, so that it never counts without its parts; then all
  // parts of `trainer`, and the folder once it is empty (the last rank to come removes it).
  Status Remove(uint64_t round, uint32_t trainer) const;

 private:
  Filesystem& fs_;
  std::string path_;
};

}  // namespace pulse::loco
