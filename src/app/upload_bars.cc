#include "app/upload_bars.h"

#include <mutex>

namespace pulse {
namespace {

constexpr uint64_t kWorthABar = 1 << 20;

// Counts what is read of a source, by however many threads: a store reads a part when it sends it.
class CountedSource final : public ByteSource {
 public:
  CountedSource(const ByteSource& source, const Console& console)
      : source_(source), bar_(console, "upload", source.size()) {}
  uint64_t size() const override { return source_.size(); }
  Status Read(uint64_t offset, ByteSpan out) const override {
    PULSE_RETURN_IF_ERROR(source_.Read(offset, out));
    const std::lock_guard lock(mutex_);
    done_ += out.size();
    bar_.Update(done_);
    return OkStatus();
  }

 private:
  const ByteSource& source_;
  mutable std::mutex mutex_;
  mutable ProgressBar bar_;    // guarded by mutex_
  mutable uint64_t done_ = 0;  // guarded by mutex_
};

}  // namespace

StatusOr<ObjectInfo> UploadBars::Put(std::string_view key, const ByteSource& source,
                                     const PutCondition& condition) {
  if (!console_.Live() || source.size() < kWorthABar) return inner_.Put(key, source, condition);
  return inner_.Put(key, CountedSource(source, console_), condition);
}

}  // namespace pulse
