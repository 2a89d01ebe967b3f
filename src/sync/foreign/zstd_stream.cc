#include "sync/foreign/zstd_stream.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <new>

namespace pulse {
namespace {

// Level 1, as those who made the formats write; higher ones find little more in such bytes.
constexpr int kZstdLevel = 1;

}  // namespace

void FrameWriter::Free::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

FrameWriter::FrameWriter(Spool& spool)
    : spool_(spool), context_(ZSTD_createCCtx()), out_(ZSTD_CStreamOutSize()) {
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kZstdLevel);
}

void FrameWriter::Start(uint64_t content_bytes) {
  ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(context_.get(), content_bytes);
}

Status FrameWriter::Append(ByteView plain) {
  return Push(plain, /*last=*/false);
}

Status FrameWriter::Finish() {
  return Push({}, /*last=*/true);
}

Status FrameWriter::Push(ByteView plain, bool last) {
  ZSTD_inBuffer in = {plain.data(), plain.size(), 0};
  while (true) {
    ZSTD_outBuffer out = {out_.data(), out_.size(), 0};
    const size_t left =
        ZSTD_compressStream2(context_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) {
      if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      return Internal("zstd: {}", ZSTD_getErrorName(left));
    }
    PULSE_RETURN_IF_ERROR(spool_.Append(ByteView(out_).first(out.pos)));
    if (last ? left == 0 : in.pos == in.size) return OkStatus();
  }
}

void FrameReader::Free::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

FrameReader::FrameReader(EntryReader entry, uint64_t max_window_bytes)
    : entry_(std::move(entry)), context_(ZSTD_createDCtx()), max_window_bytes_(max_window_bytes) {
  if (context_ == nullptr) throw std::bad_alloc();
  const ZSTD_bounds bounds = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
  const int log = static_cast<int>(std::bit_width(std::max<uint64_t>(1, max_window_bytes))) - 1;
  ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax,
                         std::clamp(log, bounds.lowerBound, bounds.upperBound));
}

StatusOr<size_t> FrameReader::Pull(ByteSpan out) {
  ZSTD_outBuffer to = {out.data(), out.size(), 0};
  while (!ended_) {
    if (input_.empty()) {
      PULSE_ASSIGN_OR_RETURN(input_, entry_.Next(ZSTD_DStreamInSize()));
    }
    if (!begun_) {
      // Keeps out the skippable and the legacy frames that libzstd would take.
      if (input_.size() < sizeof(uint32_t) ||
          LoadLittle<uint32_t>(input_.data()) != ZSTD_MAGICNUMBER) {
        return DataLoss("no zstd frame");
      }
      begun_ = true;
    }
    ZSTD_inBuffer from = {input_.data(), input_.size(), 0};
    const size_t before = to.pos;
    const size_t hint = ZSTD_decompressStream(context_.get(), &to, &from);
    if (ZSTD_isError(hint)) {
      switch (ZSTD_getErrorCode(hint)) {
        case ZSTD_error_memory_allocation:
          throw std::bad_alloc();
        case ZSTD_error_frameParameter_windowTooLarge:
          return ResourceExhausted(
              "its zstd frame needs a window of more than {} bytes: give more --memory",
              max_window_bytes_);
        default:
          return DataLoss("its zstd frame is broken: {}", ZSTD_getErrorName(hint));
      }
    }
    input_ = input_.subspan(from.pos);
    ended_ = hint == 0;
    if (to.pos == to.size) break;
    const bool stuck = from.pos == 0 && to.pos == before;
    if (!ended_ && input_.empty() && entry_.left() == 0) return DataLoss("its zstd frame is cut");
    if (stuck) return DataLoss("its zstd frame is broken: no progress");
  }
  return to.pos;
}

Status FrameReader::Fill(ByteSpan out) {
  if (out.empty()) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(const size_t got, Pull(out));
  if (got == out.size()) return OkStatus();
  return DataLoss("its zstd frame holds too little");
}

Status FrameReader::Finish() {
  uint8_t more = 0;
  PULSE_ASSIGN_OR_RETURN(const size_t got, Pull({&more, 1}));
  if (got > 0) return DataLoss("its zstd frame holds too much");
  if (!input_.empty() || entry_.left() > 0)
    return DataLoss("there are bytes behind its zstd frame");
  return OkStatus();
}

}  // namespace pulse
