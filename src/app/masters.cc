#include "app/masters.h"

#include <algorithm>
#include <cstring>

namespace pulse {
namespace {

// Collective: the elements that the first rank wants, told to all; none: it is done.
StatusOr<ElementRange> Tell(CheckedCommunicator& group, const MastersParts& parts,
                            ElementRange wanted) {
  Bytes words;
  if (group.rank() == 0) {
    AppendLittle(wanted.begin, words);
    AppendLittle(wanted.end, words);
  }
  PULSE_RETURN_IF_ERROR(group.Broadcast(0, words, Deadline::After(parts.clock, parts.timeout_ms)));
  if (words.size() != 2 * sizeof(uint64_t))
    return DataLoss("{} bytes ask for weights", words.size());
  return ElementRange{LoadLittle<uint64_t>(words.data()),
                      LoadLittle<uint64_t>(words.data() + sizeof(uint64_t))};
}

// Collective: `all` becomes, on the first rank, what each rank has of them.
Status Bring(CheckedCommunicator& group, const MastersParts& parts, ElementRange wanted,
             std::vector<Bytes>& all) {
  const uint64_t end = parts.begin + parts.shard.size();
  const uint64_t from = std::clamp(wanted.begin, parts.begin, end);
  const uint64_t to = std::clamp(wanted.end, from, end);
  std::vector<ByteView> mine(static_cast<size_t>(group.size()));
  mine.front() = AsBytes(parts.shard.subspan(from - parts.begin, to - from));
  return group.AllToAll(mine, all, Deadline::After(parts.clock, parts.timeout_ms));
}

}  // namespace

Masters::Masters(const MastersParts& parts) : parts_(parts) {
  if (parts.group != nullptr) group_.emplace(*parts.group);
}

Status Masters::Fetch(ElementRange range, std::span<uint8_t> out) const {
  const std::lock_guard lock(mutex_);
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(Tell(*group_, parts_, range).status());
  PULSE_RETURN_IF_ERROR(Bring(*group_, parts_, range, all));
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

StatusOr<ByteView> Masters::Read(const TensorRange& range, Bytes& scratch) const {
  const uint64_t begin = parts_.schema.offset(range.tensor) + range.begin / sizeof(float);
  const uint64_t length = range.bytes() / sizeof(float);
  if (!group_) return AsBytes(parts_.shard.subspan(begin, length));
  scratch.resize(range.bytes());
  if (length > 0) PULSE_RETURN_IF_ERROR(Fetch({begin, begin + length}, scratch));
  return ByteView(scratch);
}

StatusOr<std::span<const float>> Masters::All(std::vector<float>& room) const {
  if (!group_) return parts_.shard;
  constexpr uint64_t kPiece = kCellBytes / sizeof(float);
  room.resize(parts_.schema.elements());
  for (uint64_t at = 0; at < room.size(); at += kPiece) {
    const auto piece = std::span(room).subspan(at, std::min<uint64_t>(kPiece, room.size() - at));
    PULSE_RETURN_IF_ERROR(Fetch({at, at + piece.size()},
                                {reinterpret_cast<uint8_t*>(piece.data()), piece.size_bytes()}));
  }
  return std::span<const float>(room);
}

Status WithMasters(const MastersParts& parts, const std::function<Status(const Masters&)>& work) {
  const Masters masters(parts);
  const Status done = work(masters);
  if (!masters.group_) return done;
  const Status ended = Tell(*masters.group_, parts, {}).status();
  return done.ok() ? ended : done;
}

Status ServeMasters(const MastersParts& parts) {
  CheckedCommunicator group(*parts.group);
  for (;;) {
    PULSE_ASSIGN_OR_RETURN(const ElementRange wanted, Tell(group, parts, {}));
    if (wanted.length() == 0) return OkStatus();
    std::vector<Bytes> none;
    PULSE_RETURN_IF_ERROR(Bring(group, parts, wanted, none));
  }
}

}  // namespace pulse
