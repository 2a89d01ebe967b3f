// Byte sources one behind the other.
#pragma once

#include <memory>
#include <vector>

#include "store/store.h"

namespace pulse {

class JoinedSource final : public ByteSource {
 public:
  explicit JoinedSource(std::vector<std::shared_ptr<const ByteSource>> parts);
  uint64_t size() const override { return size_; }
  Status Read(uint64_t offset, ByteSpan out) const override;

 private:
  std::vector<std::shared_ptr<const ByteSource>> parts_;
  uint64_t size_ = 0;
};

}  // namespace pulse
