#include "core/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pulse {
namespace {

Digest Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest digest;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.bytes.begin());
  return digest;
}

void AppendText(std::string_view text, Bytes& out) {
  AppendLittle(static_cast<uint32_t>(text.size()), out);
  out.insert(out.end(), text.begin(), text.end());
}

// docs/format.md, "View digest". tensor_digests is empty for the digest of the schema alone.
Bytes Serialize(std::string_view tag, const ModelSchema& schema,
                std::span<const Digest> tensor_digests) {
  Bytes out;
  AppendText(tag, out);
  AppendLittle(static_cast<uint64_t>(schema.tensors().size()), out);
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const TensorSpec& spec = schema.tensors()[i];
    AppendText(spec.name, out);
    AppendText(NameOf(spec.dtype), out);
    AppendLittle(static_cast<uint32_t>(spec.shape.size()), out);
    for (const uint64_t extent : spec.shape) AppendLittle(extent, out);
    if (!tensor_digests.empty()) {
      out.insert(out.end(), tensor_digests[i].bytes.begin(), tensor_digests[i].bytes.end());
    }
  }
  AppendLittle(static_cast<uint64_t>(schema.aliases().size()), out);
  for (const auto& [alias, target] : schema.aliases()) {
    AppendText(alias, out);
    AppendText(target, out);
  }
  return out;
}

}  // namespace

std::string Digest::Hex() const {
  std::string hex;
  for (const uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

StatusOr<Digest> Digest::FromHex(std::string_view hex) {
  const auto nibble = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) {
    return InvalidArgument("a digest has 32 hexadecimal digits, not {}", hex.size());
  }
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = nibble(hex[2 * i]);
    const int low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return InvalidArgument("a digest has lowercase hexadecimal digits only");
    digest.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

Digest DigestOf(ByteView bytes) {
  return Canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

// The outer hash is streamed, so that a tensor of any size needs constant memory.
struct TensorDigester::State {
  XXH3_state_t* chunk = XXH3_createState();
  XXH3_state_t* tensor = XXH3_createState();
  size_t in_chunk = 0;

  State() {
    XXH3_128bits_reset(chunk);
    XXH3_128bits_reset(tensor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    XXH3_freeState(chunk);
    XXH3_freeState(tensor);
  }

  void CloseChunk() {
    const Digest digest = Canonical(XXH3_128bits_digest(chunk));
    XXH3_128bits_update(tensor, digest.bytes.data(), digest.bytes.size());
    XXH3_128bits_reset(chunk);
    in_chunk = 0;
  }
};

TensorDigester::TensorDigester() : state_(new State) {}
TensorDigester::~TensorDigester() {
  delete state_;
}
TensorDigester::TensorDigester(TensorDigester&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}
TensorDigester& TensorDigester::operator=(TensorDigester&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

void TensorDigester::Update(ByteView bytes) {
  while (!bytes.empty()) {
    const size_t take = std::min(bytes.size(), kDigestChunkBytes - state_->in_chunk);
    XXH3_128bits_update(state_->chunk, bytes.data(), take);
    state_->in_chunk += take;
    if (state_->in_chunk == kDigestChunkBytes) state_->CloseChunk();
    bytes = bytes.subspan(take);
  }
}

Digest TensorDigester::Finish() {
  if (state_->in_chunk > 0) state_->CloseChunk();
  return Canonical(XXH3_128bits_digest(state_->tensor));
}

Digest TensorDigest(ByteView bytes) {
  TensorDigester digester;
  digester.Update(bytes);
  return digester.Finish();
}

std::vector<Digest> ChunkDigests(ByteView bytes, Workers& workers) {
  std::vector<Digest> chunks((bytes.size() + kDigestChunkBytes - 1) / kDigestChunkBytes);
  RunRanges(workers, chunks.size(), 1, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      const size_t at = i * kDigestChunkBytes;
      chunks[i] = DigestOf(bytes.subspan(at, std::min(kDigestChunkBytes, bytes.size() - at)));
    }
  });
  return chunks;
}

Digest CombineChunks(std::span<const Digest> chunks) {
  Bytes joined;
  joined.reserve(chunks.size() * sizeof(Digest::bytes));
  for (const Digest& chunk : chunks) {
    joined.insert(joined.end(), chunk.bytes.begin(), chunk.bytes.end());
  }
  return DigestOf(joined);
}

Digest SchemaDigest(const ModelSchema& schema) {
  return DigestOf(Serialize("pulse-schema-1", schema, {}));
}

Digest ViewDigest(const ModelSchema& schema, std::span<const Digest> tensor_digests) {
  return DigestOf(Serialize("pulse-view-1", schema, tensor_digests));
}

Digest ViewDigest(const ModelView& view) {
  std::vector<Digest> digests;
  digests.reserve(view.tensors.size());
  for (const ByteView tensor : view.tensors) digests.push_back(TensorDigest(tensor));
  return ViewDigest(*view.schema, digests);
}

StatusOr<Digest> ViewDigestOfChunks(const ModelSchema& schema, std::span<const Digest> chunks) {
  const auto chunks_of = [](const TensorSpec& spec) {
    return (spec.bytes() + kDigestChunkBytes - 1) / kDigestChunkBytes;
  };
  uint64_t expected = 0;
  for (const TensorSpec& spec : schema.tensors()) expected += chunks_of(spec);
  if (chunks.size() != expected) {
    return DataLoss("{} chunk digests for tensors of {} chunks", chunks.size(), expected);
  }
  std::vector<Digest> tensors;
  for (const TensorSpec& spec : schema.tensors()) {
    tensors.push_back(CombineChunks(chunks.first(chunks_of(spec))));
    chunks = chunks.subspan(chunks_of(spec));
  }
  return ViewDigest(schema, tensors);
}

}  // namespace pulse
