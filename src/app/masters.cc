#include "app/masters.h"

#include <algorithm>
#include <cstring>

namespace pulse {
namespace {

// Elements of the flat array that the first rank asks for; none: it is done.
struct Wish {
  uint64_t begin = 0;
  uint64_t length = 0;
};

// Collective: what the first rank wants, told to all.
Status Tell(const MastersParts& parts, Wish& wish) {
  Bytes words;
  if (parts.group->rank() == 0) {
    AppendLittle(wish.begin, words);
    AppendLittle(wish.length, words);
  }
  PULSE_RETURN_IF_ERROR(
      parts.group->Broadcast(0, words, Deadline::After(parts.clock, parts.timeout_ms)));
  if (words.size() != sizeof(Wish)) return DataLoss("{} bytes ask for weights", words.size());
  wish.begin = LoadLittle<uint64_t>(words.data());
  wish.length = LoadLittle<uint64_t>(words.data() + sizeof(uint64_t));
  return OkStatus();
}

// Collective: `all` becomes, on the first rank, what each rank has of it.
Status Bring(const MastersParts& parts, const Wish& wish, std::vector<Bytes>& all) {
  const uint64_t end = parts.begin + parts.shard.size();
  const uint64_t from = std::clamp(wish.begin, parts.begin, end);
  const uint64_t to = std::clamp(wish.begin + wish.length, from, end);
  std::vector<ByteView> mine(static_cast<size_t>(parts.group->size()));
  mine.front() = AsBytes(parts.shard.subspan(from - parts.begin, to - from));
  return parts.group->AllToAll(mine, all, Deadline::After(parts.clock, parts.timeout_ms));
}

Status ReadInto(const MastersParts& parts, Wish wish, std::span<uint8_t> out) {
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(Tell(parts, wish));
  PULSE_RETURN_IF_ERROR(Bring(parts, wish, all));
  size_t at = 0;
  for (const Bytes& piece : all) {
    if (piece.size() > out.size() - at)
      return DataLoss("the trainer's ranks sent too many weights");
    if (!piece.empty()) std::memcpy(out.data() + at, piece.data(), piece.size());
    at += piece.size();
  }
  if (at == out.size()) return OkStatus();
  return DataLoss("the trainer's ranks sent {} bytes of weights, not {}", at, out.size());
}

}  // namespace

StatusOr<ByteView> Masters::Read(const TensorRange& range, Bytes& scratch) const {
  const Wish wish = {parts_.schema.offset(range.tensor) + range.begin / sizeof(float),
                     range.bytes() / sizeof(float)};
  if (parts_.group == nullptr) return AsBytes(parts_.shard.subspan(wish.begin, wish.length));
  scratch.resize(range.bytes());
  if (wish.length > 0) PULSE_RETURN_IF_ERROR(ReadInto(parts_, wish, scratch));
  return ByteView(scratch);
}

StatusOr<std::span<const float>> Masters::All(std::vector<float>& room) const {
  if (parts_.group == nullptr) return parts_.shard;
  constexpr uint64_t kPiece = kCellBytes / sizeof(float);
  room.resize(parts_.schema.elements());
  for (uint64_t at = 0; at < room.size(); at += kPiece) {
    const auto piece = std::span(room).subspan(at, std::min<uint64_t>(kPiece, room.size() - at));
    PULSE_RETURN_IF_ERROR(ReadInto(parts_, {at, piece.size()},
                                   {reinterpret_cast<uint8_t*>(piece.data()), piece.size_bytes()}));
  }
  return std::span<const float>(room);
}

Status Masters::End() const {
  if (parts_.group == nullptr) return OkStatus();
  Wish none;
  return Tell(parts_, none);
}

Status ServeMasters(const MastersParts& parts) {
  for (;;) {
    Wish wish;
    PULSE_RETURN_IF_ERROR(Tell(parts, wish));
    if (wish.length == 0) return OkStatus();
    std::vector<Bytes> none;
    PULSE_RETURN_IF_ERROR(Bring(parts, wish, none));
  }
}

}  // namespace pulse
