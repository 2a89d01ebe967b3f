#include "codec/block_streams.h"

#include <bit>

namespace pulse {
namespace {

void AppendNumber(uint32_t number, Bytes& out) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<uint8_t>(number | 0x80));
  out.push_back(static_cast<uint8_t>(number));
}

// Takes a number from the front of `bytes`.
StatusOr<uint32_t> TakeNumber(ByteView& bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size() && i < 5; ++i) {
    number |= uint64_t{bytes[i] & 0x7fu} << (7 * i);
    if (bytes[i] >= 0x80) continue;
    if ((i > 0 && bytes[i] == 0) || number > UINT32_MAX) {
      return DataLoss("a number is not in its one form");
    }
    bytes = bytes.subspan(i + 1);
    return static_cast<uint32_t>(number);
  }
  return DataLoss("the numbers end inside a number");
}

}  // namespace

ByteView BitSink::Finish() {
  for (; pending_bits_ > 0; pending_bits_ -= 8, pending_ >>= 8) {
    bytes_.push_back(static_cast<uint8_t>(pending_));
  }
  pending_bits_ = 0;
  return bytes_;
}

bool BitSource::GetCounts(std::span<uint32_t> counts, uint32_t limit) {
  constexpr int kPeeked = 57;
  constexpr uint64_t kMask = (uint64_t{1} << kPeeked) - 1;
  const uint64_t end = 8 * uint64_t{bytes_.size()};
  uint64_t zeros = 0;  // since the last one, in the words before this one
  size_t filled = 0;
  while (filled < counts.size()) {
    if (at_ >= end || zeros > limit) return false;
    int begin = 0;  // behind the last one in this word
    for (uint64_t word = Peek(at_) & kMask; word != 0; word &= word - 1) {
      const int one = std::countr_zero(word);
      zeros += static_cast<uint64_t>(one - begin);
      if (zeros > limit) return false;
      counts[filled++] = static_cast<uint32_t>(zeros);
      zeros = 0;
      begin = one + 1;
      if (filled == counts.size()) {
        at_ += static_cast<uint64_t>(begin);
        return true;
      }
    }
    zeros += static_cast<uint64_t>(kPeeked - begin);
    at_ += kPeeked;
  }
  return true;
}

Status BitSource::Finish(std::string_view what) const {
  const uint64_t left = bits_left();
  if (left >= 8 || (left > 0 && Peek(at_) != 0)) {
    return DataLoss("{} bits behind the end of the {} stream", left, what);
  }
  return OkStatus();
}

void StreamsWriter::Clear() {
  numbers.clear();
  raw.Clear();
  unary.Clear();
}

void StreamsWriter::PutNumber(uint32_t number) {
  AppendNumber(number, numbers);
}

void StreamsWriter::Finish(Bytes& out) {
  const ByteView raw_bytes = raw.Finish();
  const ByteView unary_bytes = unary.Finish();
  AppendNumber(static_cast<uint32_t>(numbers.size()), out);
  AppendNumber(static_cast<uint32_t>(raw_bytes.size()), out);
  out.insert(out.end(), numbers.begin(), numbers.end());
  out.insert(out.end(), raw_bytes.begin(), raw_bytes.end());
  out.insert(out.end(), unary_bytes.begin(), unary_bytes.end());
}

StatusOr<StreamsReader> StreamsReader::Open(ByteView payload) {
  PULSE_ASSIGN_OR_RETURN(const uint32_t number_bytes, TakeNumber(payload));
  PULSE_ASSIGN_OR_RETURN(const uint32_t raw_bytes, TakeNumber(payload));
  if (uint64_t{number_bytes} + raw_bytes > payload.size()) {
    return DataLoss("streams of {} and {} bytes in {}", number_bytes, raw_bytes, payload.size());
  }
  StreamsReader reader;
  reader.numbers_ = payload.first(number_bytes);
  reader.raw = BitSource(payload.subspan(number_bytes, raw_bytes));
  reader.unary = BitSource(payload.subspan(number_bytes + raw_bytes));
  return reader;
}

StatusOr<uint32_t> StreamsReader::GetNumber(uint32_t max) {
  PULSE_ASSIGN_OR_RETURN(const uint32_t number, TakeNumber(numbers_));
  if (number > max) return DataLoss("the number {}, expected at most {}", number, max);
  return number;
}

Status StreamsReader::NeedRaw(uint64_t bits) const {
  if (bits > raw.bits_left()) {
    return DataLoss("the raw stream has {} bits, expected {} more", raw.bits_left(), bits);
  }
  return OkStatus();
}

Status StreamsReader::Finish() const {
  if (!numbers_.empty()) return DataLoss("{} bytes behind the last number", numbers_.size());
  PULSE_RETURN_IF_ERROR(raw.Finish("raw"));
  return unary.Finish("unary");
}

}  // namespace pulse
