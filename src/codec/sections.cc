#include "codec/sections.h"

#include <zstd.h>

#include <new>

namespace pulse {
namespace {

// Level 1: higher levels search for matches, and there are none to find in gaps and steps (level 3
// gave larger output on the same data).
constexpr int kZstdLevel = 1;

}  // namespace

void SectionWriter::Free::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

SectionWriter::SectionWriter() : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}

void SectionWriter::Write(ByteView plain, Bytes& out) {
  if (plain.empty()) return;
  const size_t at = out.size();
  out.resize(at + ZSTD_compressBound(plain.size()));
  const size_t written = ZSTD_compressCCtx(context_.get(), out.data() + at, out.size() - at,
                                           plain.data(), plain.size(), kZstdLevel);
  // With room for the bound, memory is all that can fail.
  if (ZSTD_isError(written)) throw std::bad_alloc();
  out.resize(at + written);
}

void SectionWriter::WritePlanes(ByteView words, size_t word_bytes, Bytes& out) {
  plane_.resize(words.size() / word_bytes);
  for (size_t p = 0; p < word_bytes; ++p) {
    for (size_t i = 0; i < plane_.size(); ++i) plane_[i] = words[i * word_bytes + p];
    Write(plane_, out);
  }
}

void SectionReader::Free::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

SectionReader::SectionReader() : context_(ZSTD_createDCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}

StatusOr<ByteView> SectionReader::Read(size_t min_bytes, size_t max_bytes) {
  // The magic number keeps out the skippable and the legacy frames that libzstd would take.
  if (rest_.size() < sizeof(uint32_t) || LoadLittle<uint32_t>(rest_.data()) != ZSTD_MAGICNUMBER) {
    return DataLoss("no zstd frame where a section should begin");
  }
  const unsigned long long claimed = ZSTD_getFrameContentSize(rest_.data(), rest_.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) {
    return DataLoss("a section's zstd frame does not say its size");
  }
  if (claimed < min_bytes || claimed > max_bytes) {
    return DataLoss("a section of {} bytes, expected {} to {}", claimed, min_bytes, max_bytes);
  }
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(rest_.data(), rest_.size());
  if (ZSTD_isError(frame_bytes)) {
    return DataLoss("a section's zstd frame is broken: {}", ZSTD_getErrorName(frame_bytes));
  }
  plain_.resize(claimed);
  const size_t got =
      ZSTD_decompressDCtx(context_.get(), plain_.data(), plain_.size(), rest_.data(), frame_bytes);
  if (ZSTD_isError(got)) {
    return DataLoss("a section's zstd frame is broken: {}", ZSTD_getErrorName(got));
  }
  if (got != claimed) return DataLoss("a section holds {} bytes, but says {}", got, claimed);
  rest_ = rest_.subspan(frame_bytes);
  return ByteView(plain_);
}

Status SectionReader::ReadPlanes(size_t word_bytes, ByteSpan words) {
  const size_t count = words.size() / word_bytes;
  for (size_t p = 0; p < word_bytes; ++p) {
    PULSE_ASSIGN_OR_RETURN(const ByteView plane, Read(count, count));
    for (size_t i = 0; i < count; ++i) words[i * word_bytes + p] = plane[i];
  }
  return OkStatus();
}

Status SectionReader::Finish() const {
  if (!rest_.empty()) return DataLoss("{} bytes behind the last section", rest_.size());
  return OkStatus();
}

}  // namespace pulse
