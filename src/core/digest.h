// The digest of weights: a tree of XXH3-128, so that threads, devices and publishing ranks can each
// compute a part. It answers "are these the same bits"; it is no defence against an attacker
// (core/sha256.h is).
//
//   chunk digest    XXH3-128 (seed 0) of each 1 MiB of a tensor's bytes; the last chunk may be
//   short tensor digest   XXH3-128 of the chunk digests, 16 bytes each, canonical (big-endian)
//   order view digest     XXH3-128 of the schema and the tensor digests, as docs/format.md lays
//   them out
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/schema.h"
#include "core/status.h"
#include "core/view.h"
#include "core/workers.h"

namespace pulse {

inline constexpr size_t kDigestChunkBytes = size_t{1} << 20;

// 16 bytes in canonical order. All zero means "none" where a digest is optional.
struct Digest {
  std::array<uint8_t, 16> bytes = {};

  std::string Hex() const;  // 32 lowercase digits
  // kInvalidArgument unless exactly 32 lowercase hexadecimal digits.
  static StatusOr<Digest> FromHex(std::string_view hex);
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// XXH3-128 of the bytes as one piece (for small things; weights use the tree).
Digest DigestOf(ByteView bytes);

// One tensor, fed in pieces of any size, in order. Not thread-safe.
class TensorDigester {
 public:
  TensorDigester();
  ~TensorDigester();
  TensorDigester(TensorDigester&&) noexcept;
  TensorDigester& operator=(TensorDigester&&) noexcept;

  void Update(ByteView bytes);
  // The digest of all bytes so far; the digester is then spent.
  Digest Finish();

 private:
  struct State;
  State* state_;
};

Digest TensorDigest(ByteView bytes);

// Of each chunk of a tensor, or of a part of it that begins where a chunk does; by several threads,
// each over whole chunks.
std::vector<Digest> ChunkDigests(ByteView bytes, Workers& workers);

// Combines whole-chunk digests computed elsewhere into a tensor's digest.
Digest CombineChunks(std::span<const Digest> chunks);

// Of names, shapes, dtypes and aliases alone.
Digest SchemaDigest(const ModelSchema& schema);

// tensor_digests: one per tensor of the schema, in its order.
Digest ViewDigest(const ModelSchema& schema, std::span<const Digest> tensor_digests);
Digest ViewDigest(const ModelView& view);

// chunks: those of all tensors in turn, wherever they were computed. kDataLoss for another number
// of them than the schema's tensors have.
StatusOr<Digest> ViewDigestOfChunks(const ModelSchema& schema, std::span<const Digest> chunks);

}  // namespace pulse
