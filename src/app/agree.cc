#include "app/agree.h"

namespace pulse {

StatusOr<std::vector<Bytes>> Agree(Communicator& communicator, const StatusOr<Bytes>& mine,
                                   Deadline deadline) {
  Bytes row;
  AppendLittle(static_cast<int32_t>(mine.status().code()), row);
  const std::string_view text = ToStd(mine.status().message());
  const ByteView payload = mine.ok() ? ByteView(*mine) : AsBytes(text);
  row.insert(row.end(), payload.begin(), payload.end());
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(row, all, deadline));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() < sizeof(int32_t)) return Internal("rank {} sent no status", rank);
    const auto code = static_cast<absl::StatusCode>(LoadLittle<int32_t>(all[rank].data()));
    if (code == absl::StatusCode::kOk) {
      all[rank].erase(all[rank].begin(), all[rank].begin() + sizeof(int32_t));
      continue;
    }
    const std::string_view message = AsText(ByteView(all[rank]).subspan(sizeof(int32_t)));
    if (rank == 0) return Status(code, ToAbsl(message));
    return Status(code, fmt::format("rank {} ({}): {}", rank,
                                    communicator.HostOf(static_cast<int>(rank)), message));
  }
  return all;
}

}  // namespace pulse
