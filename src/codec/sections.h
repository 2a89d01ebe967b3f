// A block's payload is a row of sections. A section is one kind of bytes (gaps, codes, one byte
// plane of the values), alone in a zstd frame of its own: mixed, they would share one Huffman
// table.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "core/status.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace pulse {

// Not thread-safe; reuse one for many blocks. std::bad_alloc when zstd finds no memory.
class SectionWriter {
 public:
  SectionWriter();

  // Appends `plain` as one section, or nothing if it is empty. Deterministic up to the zstd
  // release.
  void Write(ByteView plain, Bytes& out);

  // Byte p of every word goes into section p, lowest first: the high bytes, nearly constant, pack
  // better alone. words: a multiple of word_bytes long.
  void WritePlanes(ByteView words, size_t word_bytes, Bytes& out);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
  Bytes plane_;
};

// Reads a payload's sections in order. Never allocates more than the caller's bound, whatever a
// frame claims. Not thread-safe; reuse one for many blocks. std::bad_alloc like the writer.
class SectionReader {
 public:
  SectionReader();

  void Start(ByteView payload) { rest_ = payload; }

  // The next section, min_bytes (>= 1) to max_bytes long; valid until the next read. kDataLoss if
  // there is no zstd frame that says and keeps such a size.
  StatusOr<ByteView> Read(size_t min_bytes, size_t max_bytes);

  // The next word_bytes sections, one byte plane each, woven into `words`: not empty, a multiple of
  // word_bytes long.
  Status ReadPlanes(size_t word_bytes, ByteSpan words);

  // kDataLoss if anything is left.
  Status Finish() const;

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  ByteView rest_;
  Bytes plain_;
};

}  // namespace pulse
