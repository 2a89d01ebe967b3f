// Rows of bits, least significant first, as bytes: bit i of the row is bit i % 8 of byte i / 8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/bytes.h"

namespace pulse {

// The most bits that one Write or Peek carries: what is left of 64 behind a begun byte.
inline constexpr unsigned kMostBits = 56;

class BitWriter {
 public:
  // Appends to `out`, which must outlive the writer and stay untouched until Finish.
  explicit BitWriter(Bytes& out) : out_(out), at_(out.size()) {}

  // Makes room for that many bits; Write may be called for no more.
  void Reserve(uint64_t bits) { out_.resize(at_ + bits / 8 + 2 * sizeof(held_)); }

  // value < 2^bits, bits <= kMostBits.
  void Write(uint64_t value, unsigned bits) {
    held_ |= value << held_bits_;
    held_bits_ += bits;
    std::memcpy(out_.data() + at_, &held_, sizeof(held_));
    at_ += held_bits_ / 8;
    held_ >>= held_bits_ & ~7u;
    held_bits_ %= 8;
  }

  // Fills the last byte with zero bits and cuts `out` behind it.
  void Finish() { out_.resize(at_ + (held_bits_ > 0)); }

 private:
  Bytes& out_;
  size_t at_;
  uint64_t held_ = 0;       // bits not yet in a whole byte
  unsigned held_bits_ = 0;  // below 8
};

// The next bits of a BitReader in a register: what is read next does not wait for memory. Does not
// look for the end: it may read kWindowBytes behind the byte that it stands in.
inline constexpr size_t kWindowBytes = 16;
class BitWindow {
 public:
  // bit: of the byte at `at`, 0 to 7.
  BitWindow(const uint8_t* at, unsigned bit)
      : next_(at + 7 + (bit > 0)), low_(LoadLittle<uint64_t>(at) >> bit), bits_(low_) {
    count_ = 8 * static_cast<unsigned>(next_ - at) - bit;
  }

  // At least kMostBits of them count.
  uint64_t bits() const { return bits_; }
  // The same, sooner; only so many of them count as the last Skip left of kMostBits.
  uint64_t low_bits() const { return low_; }

  // bits: at most kMostBits.
  void Skip(unsigned bits) {
    count_ -= bits;
    low_ = bits_ >> bits;
    bits_ = low_ | LoadLittle<uint64_t>(next_) << count_;
    const unsigned bytes = (63 - count_) / 8;
    next_ += bytes;
    count_ += 8 * bytes;
  }

  // How many bits lie between `begin` and the first of bits().
  uint64_t BitsFrom(const uint8_t* begin) const {
    return 8 * static_cast<uint64_t>(next_ - begin) - count_;
  }

 private:
  const uint8_t* next_;  // behind what was taken in
  uint64_t low_;
  uint64_t bits_;
  unsigned count_;  // of what was taken in and not skipped: 56 to 63
};

// Never reads outside its bytes: what lies behind them reads as zeros, and IsSpent() tells.
class BitReader {
 public:
  // Copies `bytes`, at whose end it keeps zeros of its own.
  void Start(ByteView bytes) {
    size_ = bytes.size();
    bytes_.resize(size_ + kWindowBytes);
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
    std::fill_n(bytes_.end() - kWindowBytes, kWindowBytes, uint8_t{0});
    at_ = 0;
  }

  // The next bits, the first of them lowest; at least kMostBits of them count.
  uint64_t Peek() const {
    const size_t byte = std::min<uint64_t>(at_ / 8, size_);
    return LoadLittle<uint64_t>(bytes_.data() + byte) >> at_ % 8;
  }

  void Skip(unsigned bits) { at_ += bits; }

  // bits <= kMostBits.
  uint64_t Read(unsigned bits) {
    const uint64_t value = Peek() & ((uint64_t{1} << bits) - 1);
    Skip(bits);
    return value;
  }

  // Of whole bytes, what is left. A window may skip so many bytes.
  uint64_t bytes_left() const { return size_ - std::min<uint64_t>((at_ + 7) / 8, size_); }
  BitWindow Window() const { return {bytes_.data() + at_ / 8, static_cast<unsigned>(at_ % 8)}; }
  void MoveTo(const BitWindow& window) { at_ = window.BitsFrom(bytes_.data()); }

  // More was read than there is.
  bool IsSpent() const { return at_ > size_ * 8; }

  // Everything was read, and what fills the last byte is zero: as BitWriter::Finish leaves it.
  bool IsAtEnd() const { return !IsSpent() && size_ * 8 - at_ < 8 && (Peek() & 0xFF) == 0; }

 private:
  Bytes bytes_;
  size_t size_ = 0;
  uint64_t at_ = 0;  // in bits
};

}  // namespace pulse
