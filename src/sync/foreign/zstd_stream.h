// One zstd frame, written and read in pieces: for the frames that other systems exchange, which
// hold a whole tensor's change each.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "core/status.h"
#include "sync/byte_sources.h"
#include "sync/foreign/tensor_file.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace pulse {

// Appends one frame to a spool. For one thread. std::bad_alloc when zstd finds no memory.
class FrameWriter {
 public:
  explicit FrameWriter(Spool& spool);

  // content_bytes: of the whole frame, which will say so.
  void Start(uint64_t content_bytes);
  Status Append(ByteView plain);
  // kInternal unless exactly content_bytes were appended.
  Status Finish();

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  Status Push(ByteView plain, bool last);

  Spool& spool_;
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
  Bytes out_;
};

// Reads the content of the one frame that a tensor of a file holds, as far as it is asked for: what
// the frame claims costs nothing. For one thread.
class FrameReader {
 public:
  // max_window_bytes: what the decoder may keep; a frame that needs more is kResourceExhausted.
  FrameReader(EntryReader entry, uint64_t max_window_bytes);

  // The next out.size() bytes of the content. kDataLoss when the frame is broken, ends before, or
  // is none.
  Status Fill(ByteSpan out);
  // kDataLoss unless all of the content was read and nothing lies behind the frame.
  Status Finish();

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  // Decodes into `out` until it is full or the frame ends; how much came.
  StatusOr<size_t> Pull(ByteSpan out);

  EntryReader entry_;
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  ByteView input_;  // of entry_, not decoded yet
  uint64_t max_window_bytes_;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace pulse
