#include "app/commands/bench_codec_rivals.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "codec/class_positions.h"
#include "codec/gaps.h"
#include "codec/sections.h"
#include "codec/small_delta.h"
#include "codec/word_delta.h"

namespace pulse {
namespace {

using kernels::KernelTable;

constexpr size_t kBlockBytes = size_t{2} << 20;  // 2^20 words, as kernels and codecs take them
constexpr uint16_t kSkip = 0xffff;               // a gap so long, and no entry behind it

std::vector<uint32_t> Changed(const KernelTable& kernels, ByteView before, ByteView after) {
  // Kept: fresh pages for each call would cost the others' forms more than their work.
  thread_local std::vector<uint32_t> found(kBlockBytes / 2);
  std::vector<uint32_t> positions;
  for (size_t at = 0; at < before.size(); at += kBlockBytes) {
    const size_t bytes = std::min(kBlockBytes, before.size() - at);
    const size_t count =
        kernels.diff(before.subspan(at, bytes), after.subspan(at, bytes), 2, found.data());
    for (size_t i = 0; i < count; ++i) {
      positions.push_back(found[i] + static_cast<uint32_t>(at / 2));
    }
  }
  return positions;
}

uint16_t WordAt(ByteView words, size_t i) {
  return LoadLittle<uint16_t>(words.data() + 2 * i);
}

void AppendWords(ByteView after, std::span<const uint32_t> positions, Bytes& out) {
  for (const uint32_t position : positions) AppendLittle(WordAt(after, position), out);
}

// u32 count, positions, new words.
Bytes EncodeRaw(const KernelTable& kernels, ByteView before, ByteView after) {
  const std::vector<uint32_t> positions = Changed(kernels, before, after);
  const ByteView raw = AsBytes(std::span<const uint32_t>(positions));
  Bytes out(raw.begin(), raw.end());
  out.reserve(6 * positions.size());
  AppendWords(after, positions, out);
  return out;
}

Status ApplyRaw(ByteView coded, ByteSpan words) {
  const size_t count = coded.size() / 6;
  for (size_t i = 0; i < count; ++i) {
    const auto position = LoadLittle<uint32_t>(coded.data() + 4 * i);
    std::memcpy(words.data() + 2 * size_t{position}, coded.data() + 4 * count + 2 * i, 2);
  }
  return OkStatus();
}

Bytes EncodeGaps16(const KernelTable& kernels, ByteView before, ByteView after) {
  const std::vector<uint32_t> positions = Changed(kernels, before, after);
  Bytes out;
  out.reserve(4 * positions.size() + 64);
  uint32_t next = 0;
  for (const uint32_t position : positions) {
    uint32_t gap = position - next;
    for (; gap >= kSkip; gap -= kSkip) AppendLittle(kSkip, out);
    AppendLittle(static_cast<uint16_t>(gap), out);
    AppendLittle(WordAt(after, position), out);
    next = position + 1;
  }
  return out;
}

Status ApplyGaps16(ByteView coded, ByteSpan words) {
  size_t at = 0;
  for (size_t i = 0; i + 2 <= coded.size();) {
    const auto gap = LoadLittle<uint16_t>(coded.data() + i);
    i += 2;
    at += gap;
    if (gap == kSkip) continue;
    std::memcpy(words.data() + 2 * at, coded.data() + i, 2);
    i += 2;
    ++at;
  }
  return OkStatus();
}

Bytes Zstd(ByteView plain) {
  Bytes out(ZSTD_compressBound(plain.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1));
  return out;
}

StatusOr<Bytes> Unzstd(ByteView coded) {
  Bytes plain(ZSTD_getFrameContentSize(coded.data(), coded.size()));
  const size_t got = ZSTD_decompress(plain.data(), plain.size(), coded.data(), coded.size());
  if (ZSTD_isError(got)) return Internal("zstd: {}", ZSTD_getErrorName(got));
  return plain;
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// As `zstd -1 --patch-from`, with a window over the whole base.
StatusOr<Bytes> EncodePatchFrom(ByteView before, ByteView after) {
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, 25);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_enableLongDistanceMatching, 1);
  ZSTD_CCtx_refPrefix(context.get(), before.data(), before.size());
  Bytes out(ZSTD_compressBound(after.size()));
  const size_t size =
      ZSTD_compress2(context.get(), out.data(), out.size(), after.data(), after.size());
  if (ZSTD_isError(size)) return Internal("zstd: {}", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

Status ApplyPatchFrom(ByteView coded, ByteSpan words) {
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  ZSTD_DCtx_refPrefix(context.get(), words.data(), words.size());
  Bytes plain(words.size());
  const size_t got =
      ZSTD_decompressDCtx(context.get(), plain.data(), plain.size(), coded.data(), coded.size());
  if (ZSTD_isError(got)) return Internal("zstd: {}", ZSTD_getErrorName(got));
  std::memcpy(words.data(), plain.data(), plain.size());
  return OkStatus();
}

uint64_t SmallPositions(const KernelTable& kernels, ByteView before, ByteView after) {
  const std::vector<uint32_t> positions = Changed(kernels, before, after);
  if (positions.empty()) return 0;
  const size_t words = before.size() / sizeof(uint16_t);
  ClassPositionCoder coder(kernels.class_rank, LayoutOf(DType::kBF16), words);
  coder.Start(words);
  coder.Add(before);
  StreamsWriter streams;
  coder.Encode(before, positions, streams);
  Bytes out;
  streams.Finish(out);
  return out.size();
}

uint64_t FastPositions(const KernelTable& kernels, ByteView before, ByteView after) {
  Bytes gaps, out;
  EncodeGaps(Changed(kernels, before, after), gaps);
  SectionWriter().Write(gaps, out);
  return out.size();
}

// The sum over the blocks of a cell.
std::function<uint64_t(ByteView, ByteView)> OfBlocks(const KernelTable& kernels,
                                                     uint64_t (*of_block)(const KernelTable&,
                                                                          ByteView, ByteView)) {
  return [&kernels, of_block](ByteView before, ByteView after) {
    uint64_t sum = 0;
    for (size_t at = 0; at < before.size(); at += kBlockBytes) {
      const size_t bytes = std::min(kBlockBytes, before.size() - at);
      sum += of_block(kernels, before.subspan(at, bytes), after.subspan(at, bytes));
    }
    return sum;
  };
}

}  // namespace

std::vector<BlockCodec> BlockCodecs(const KernelTable& k) {
  const auto share_of_raw = [&k](uint64_t bytes) {
    return [&k, bytes](ByteView before, ByteView after) {
      return bytes * Changed(k, before, after).size();
    };
  };
  return {
      {"small",
       [&k](ByteView before, ByteView after) -> StatusOr<Bytes> {
         PULSE_ASSIGN_OR_RETURN(WordDelta delta, EncodeSmallDelta(k, before, after, DType::kBF16));
         return std::move(delta.bytes);
       },
       [&k](ByteView coded, ByteSpan words) {
         return ApplySmallDelta(k, coded, words, DType::kBF16, words);
       },
       OfBlocks(k, SmallPositions)},
      {"fast",
       [&k](ByteView before, ByteView after) -> StatusOr<Bytes> {
         PULSE_ASSIGN_OR_RETURN(WordDelta delta, EncodeWordDelta(k, before, after, 2));
         return std::move(delta.bytes);
       },
       [&k](ByteView coded, ByteSpan words) { return ApplyWordDelta(k, coded, words, 2, words); },
       OfBlocks(k, FastPositions)},
      {"int32 + bf16",
       [&k](ByteView before, ByteView after) -> StatusOr<Bytes> {
         return EncodeRaw(k, before, after);
       },
       ApplyRaw, share_of_raw(4)},
      {"u16 gap + bf16",
       [&k](ByteView before, ByteView after) -> StatusOr<Bytes> {
         return EncodeGaps16(k, before, after);
       },
       ApplyGaps16, share_of_raw(2)},
      {"COO, zstd -1",
       [&k](ByteView before, ByteView after) -> StatusOr<Bytes> {
         return Zstd(EncodeRaw(k, before, after));
       },
       [](ByteView coded, ByteSpan words) -> Status {
         PULSE_ASSIGN_OR_RETURN(const Bytes plain, Unzstd(coded));
         return ApplyRaw(plain, words);
       },
       {}},
      {"zstd patch-from", EncodePatchFrom, ApplyPatchFrom, {}}};
}

}  // namespace pulse
