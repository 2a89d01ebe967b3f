// A safetensors file behind any byte source, its tensors read front to back with little memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codec/safetensors.h"
#include "store/store.h"

namespace pulse {

// Immutable, thread-safe. The bytes are as the source gives them: unverified.
class TensorFile {
 public:
  // Checks the header. where: for messages. kDataLoss, kUnimplemented (an element type that we do
  // not have), or the source's own errors.
  static StatusOr<std::shared_ptr<const TensorFile>> Open(std::shared_ptr<const ByteSource> source,
                                                          std::string where);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::string& where() const { return where_; }
  uint64_t file_bytes() const { return header_.file_bytes(); }

  // Null if there is no such tensor.
  const SafetensorsEntry* Find(const std::string& name) const;

  Status Read(uint64_t data_offset, ByteSpan out) const {
    return source_->Read(header_.data_offset + data_offset, out);
  }

 private:
  TensorFile() = default;

  std::shared_ptr<const ByteSource> source_;
  std::string where_;
  SafetensorsHeader header_;
  std::map<std::string, size_t> by_name_;
};

// Reads one tensor of a file front to back, through a buffer that saves requests. For one thread.
class EntryReader {
 public:
  // entry: of `file`.
  EntryReader(std::shared_ptr<const TensorFile> file, const SafetensorsEntry& entry);

  uint64_t left() const { return buffered() + (end_ - at_); }

  // The next bytes, at most `most` and at least one; empty at the end. Valid until the next call.
  StatusOr<ByteView> Next(size_t most);
  // Fills `out`; kDataLoss if the tensor ends before.
  Status Fill(ByteSpan out);

  // One number; kDataLoss like Fill.
  template <typename T>
  StatusOr<T> Number() {
    if (buffered() >= sizeof(T)) {
      const T value = LoadLittle<T>(buffer_.data() + taken_);
      taken_ += sizeof(T);
      return value;
    }
    T value{};
    PULSE_RETURN_IF_ERROR(Fill({reinterpret_cast<uint8_t*>(&value), sizeof(T)}));
    return value;
  }

 private:
  size_t buffered() const { return buffer_.size() - taken_; }
  Status Refill();

  std::shared_ptr<const TensorFile> file_;
  uint64_t at_ = 0;  // of what is not in the buffer yet
  uint64_t end_ = 0;
  Bytes buffer_;
  size_t taken_ = 0;
};

}  // namespace pulse
