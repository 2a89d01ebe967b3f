#include "sync/fetch.h"

#include <algorithm>

#include "core/sha256.h"
#include "sync/in_order.h"

namespace pulse {
namespace {

// One request of a large object: enough that a round trip across an ocean costs little beside it.
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;

}  // namespace

Status FetchObject(Store& store, const std::string& key, const ExpectedObject& expected,
                   const std::function<Status(ByteView)>& sink) {
  Sha256 sha;
  const auto take = [&](size_t, const Bytes& piece) {
    sha.Update(piece);
    return sink(piece);
  };
  if (expected.bytes <= kPieceBytes) {
    auto whole = store.Get(key, expected.bytes);
    if (absl::IsResourceExhausted(whole.status())) {
      return DataLoss("{}: larger than its {} bytes", key, expected.bytes);
    }
    PULSE_RETURN_IF_ERROR(whole.status());
    PULSE_RETURN_IF_ERROR(take(0, whole->bytes));
  } else {
    PULSE_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
    if (info.bytes != expected.bytes) {
      return DataLoss("{}: has {} bytes, expected {}", key, info.bytes, expected.bytes);
    }
    const auto make_worker = [&] {
      return [&](size_t i) -> StatusOr<Bytes> {
        const uint64_t at = i * kPieceBytes;
        Bytes piece(std::min(kPieceBytes, expected.bytes - at));
        PULSE_RETURN_IF_ERROR(store.ReadAt(key, at, piece));
        return piece;
      };
    };
    const size_t pieces = (expected.bytes + kPieceBytes - 1) / kPieceBytes;
    PULSE_RETURN_IF_ERROR(ProduceInOrder<Bytes>(pieces, expected.threads, make_worker, take));
  }
  if (sha.Hex() != expected.sha256) {
    return DataLoss("{}: its bytes are not those that were published (SHA-256 differs)", key);
  }
  return OkStatus();
}

}  // namespace pulse
