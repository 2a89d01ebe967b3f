// A store that shows how far each large put is: bytes and rate on a bar of its own.
#pragma once

#include "app/console.h"
#include "store/forwarding_store.h"

namespace pulse {

class UploadBars final : public ForwardingStore {
 public:
  // Both must outlive it.
  UploadBars(Store& inner, const Console& console) : ForwardingStore(inner), console_(console) {}

  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override;

 private:
  const Console& console_;
};

}  // namespace pulse
