// A block's payload in the entropy-coded formats: three streams, so that each can be read at its
// own pace.
//
//   numbers   LEB128, shortest form: how many
//   raw       bits as they are: low bits of gaps, signs, mantissas
//   unary     zeros and a closing one for every high part of a gap
//
// Bits are packed from the lowest bit of the first byte; the last byte is filled with zeros.
//   payload = LEB128 bytes of `numbers`, LEB128 bytes of `raw`, numbers, raw, unary
#pragma once

#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "core/status.h"

namespace pulse {

// Appends bits to a byte string.
class BitSink {
 public:
  void Clear() {
    bytes_.clear();
    pending_ = 0;
    pending_bits_ = 0;
  }
  // The lowest `bits` (0 .. 64) of `value`, which has no others.
  void Put(uint64_t value, int bits) {
    if (bits == 0) return;
    pending_ |= value << pending_bits_;
    if (pending_bits_ + bits < 64) {
      pending_bits_ += bits;
      return;
    }
    AppendLittle(pending_, bytes_);
    const int written = 64 - pending_bits_;
    pending_ = written < 64 ? value >> written : 0;
    pending_bits_ = bits - written;
  }
  void PutUnary(uint64_t zeros) {
    for (; zeros >= 63; zeros -= 63) Put(0, 63);
    Put(uint64_t{1} << zeros, static_cast<int>(zeros) + 1);
  }
  // Fills the last byte; nothing may be put afterwards but after Clear.
  ByteView Finish();

 private:
  Bytes bytes_;
  uint64_t pending_ = 0;
  int pending_bits_ = 0;  // 0 .. 63
};

// Reads what BitSink wrote. Behind the end there are zeros.
class BitSource {
 public:
  BitSource() = default;
  explicit BitSource(ByteView bytes) : bytes_(bytes) {}

  uint64_t bits_left() const { return 8 * uint64_t{bytes_.size()} - at_; }
  // bits: 0 .. 57, at most bits_left().
  uint64_t Get(int bits) {
    const uint64_t value = Peek(at_) & ((uint64_t{1} << bits) - 1);
    at_ += static_cast<uint64_t>(bits);
    return value;
  }
  // Fills `counts` with the zeros before each of the next ones. False if there are not so many
  // ones, or a count is above `limit`; then nothing more may be read.
  bool GetCounts(std::span<uint32_t> counts, uint32_t limit);
  // OK if nothing is left but the zeros that fill the last byte.
  Status Finish(std::string_view what) const;

 private:
  // The 57 bits and more from bit `at` on.
  uint64_t Peek(uint64_t at) const {
    const size_t byte = at / 8;
    uint64_t word = 0;
    if (byte + 8 <= bytes_.size()) {
      word = LoadLittle<uint64_t>(bytes_.data() + byte);
    } else if (byte < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
    }
    return word >> at % 8;
  }

  ByteView bytes_;
  uint64_t at_ = 0;
};

struct StreamsWriter {
  Bytes numbers;
  BitSink raw;
  BitSink unary;

  void Clear();
  void PutNumber(uint32_t number);
  void Finish(Bytes& out);  // appends the payload
};

// A view of somebody's payload, which must outlive it.
class StreamsReader {
 public:
  // kDataLoss unless the streams lie inside `payload`.
  static StatusOr<StreamsReader> Open(ByteView payload);

  // kDataLoss unless it is at most `max` and in its shortest form.
  StatusOr<uint32_t> GetNumber(uint32_t max);
  // kDataLoss unless `bits` more are there.
  Status NeedRaw(uint64_t bits) const;
  // kDataLoss unless all streams have been read to their ends.
  Status Finish() const;

  BitSource raw;
  BitSource unary;

 private:
  ByteView numbers_;
};

}  // namespace pulse
