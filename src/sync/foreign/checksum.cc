#include "sync/foreign/checksum.h"

#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <new>

namespace pulse {
namespace {

class Xxh3 final : public Checksum {
 public:
  Xxh3() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void Update(ByteView bytes) override {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  std::string Hex() const override {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

class Adler32 final : public Checksum {
 public:
  void Update(ByteView bytes) override {
    if (!bytes.empty()) value_ = adler32_z(value_, bytes.data(), bytes.size());
  }
  std::string Hex() const override { return fmt::format("{:08x}", value_); }

 private:
  uLong value_ = 1;  // of nothing
};

}  // namespace

StatusOr<std::unique_ptr<Checksum>> MakeChecksum(std::string_view name) {
  if (name == kXxh3Checksum) return std::make_unique<Xxh3>();
  if (name == "adler32") return std::make_unique<Adler32>();
  return Unimplemented(
      "checksum \"{}\" is not built in (xxh3-128 and adler32 are): let its writer use one of them",
      name);
}

}  // namespace pulse
