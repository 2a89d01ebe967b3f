#include "collective/mpi/mpi_transfers.h"

#include <algorithm>

#include "collective/mpi/back_off.h"
#include "collective/mpi/mpi_status.h"

namespace pulse {
namespace {

// One chunk moves while the next is already matched with its receiver.
constexpr size_t kChunksInFlight = 2;

}  // namespace

MpiTransfers::MpiTransfers(MPI_Comm comm, int tag, uint64_t chunk_bytes, std::mutex& calls)
    : comm_(comm), tag_(tag), chunk_bytes_(chunk_bytes), calls_(calls) {}

void MpiTransfers::Send(int peer, ByteView message) {
  Add(peer, true, const_cast<uint8_t*>(message.data()), message.size());
}

void MpiTransfers::Receive(int peer, ByteSpan message) {
  Add(peer, false, message.data(), message.size());
}

void MpiTransfers::Add(int peer, bool is_send, uint8_t* bytes, uint64_t size) {
  if (size == 0) return;  // no chunk, and the peer knows the length
  messages_.push_back({peer, is_send, bytes, ChunkPlan(size, chunk_bytes_)});
}

Status MpiTransfers::Run(Deadline deadline, Clock& clock) {
  const auto locked = [this](auto call) {
    const std::lock_guard lock(calls_);
    return call();
  };
  PULSE_RETURN_IF_ERROR(locked([this] { return PostAll(); }));
  BackOff back_off(clock);
  while (in_flight_ > 0) {
    PULSE_ASSIGN_OR_RETURN(const int moved, locked([this] { return Progress(); }));
    if (moved > 0) back_off.Reset();
    if (in_flight_ > 0 && deadline.Expired()) return DeadlineExceeded("");
    if (moved == 0) back_off.Wait();
  }
  return OkStatus();
}

Status MpiTransfers::PostAll() {
  requests_.assign(messages_.size() * kChunksInFlight, MPI_REQUEST_NULL);
  expected_bytes_.assign(requests_.size(), 0);
  finished_.resize(requests_.size());
  statuses_.resize(requests_.size());
  for (size_t slot = 0; slot < requests_.size(); ++slot) PULSE_RETURN_IF_ERROR(PostNext(slot));
  return OkStatus();
}

StatusOr<int> MpiTransfers::Progress() {
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                finished_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return MpiStatus(code, "MPI_Testsome");
  for (int i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    if (code == MPI_SUCCESS) statuses_[at].MPI_ERROR = MPI_SUCCESS;  // else MPI leaves it unset
    const size_t slot = static_cast<size_t>(finished_[at]);
    PULSE_RETURN_IF_ERROR(Complete(slot, statuses_[at]));
    PULSE_RETURN_IF_ERROR(PostNext(slot));
  }
  return count;
}

Status MpiTransfers::PostNext(size_t slot) {
  Message& message = messages_[slot / kChunksInFlight];
  if (message.posted == message.chunks.count()) return OkStatus();
  uint8_t* bytes = message.bytes + message.chunks.OffsetOf(message.posted);
  const int count = static_cast<int>(message.chunks.BytesOf(message.posted));
  MPI_Request* request = &requests_[slot];
  const int code = message.is_send
                       ? MPI_Isend(bytes, count, MPI_BYTE, message.peer, tag_, comm_, request)
                       : MPI_Irecv(bytes, count, MPI_BYTE, message.peer, tag_, comm_, request);
  if (code != MPI_SUCCESS) {
    return MpiStatus(code, fmt::format("{} rank {}", message.is_send ? "send to" : "receive from",
                                       message.peer));
  }
  expected_bytes_[slot] = count;
  ++message.posted;
  ++in_flight_;
  return OkStatus();
}

Status MpiTransfers::Complete(size_t slot, const MPI_Status& status) {
  Message& message = messages_[slot / kChunksInFlight];
  --in_flight_;
  const char* direction = message.is_send ? "send to" : "receive from";
  PULSE_RETURN_IF_ERROR(
      MpiStatus(status.MPI_ERROR, fmt::format("{} rank {}", direction, message.peer)));
  int received = expected_bytes_[slot];
  if (!message.is_send) MPI_Get_count(&status, MPI_BYTE, &received);
  if (received != expected_bytes_[slot]) {
    return Internal("rank {} sent a chunk of {} bytes instead of {}: are chunk_bytes equal?",
                    message.peer, received, expected_bytes_[slot]);
  }
  ++message.done;
  return OkStatus();
}

std::vector<int> MpiTransfers::LatePeers() const {
  std::vector<int> silent;
  std::vector<int> not_taking;
  for (const Message& message : messages_) {
    if (message.done == message.chunks.count()) continue;
    (message.is_send ? not_taking : silent).push_back(message.peer);
  }
  std::vector<int>& late = silent.empty() ? not_taking : silent;
  std::sort(late.begin(), late.end());
  return late;
}

bool MpiTransfers::CancelAll() {
  const std::lock_guard lock(calls_);
  for (size_t slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot] == MPI_REQUEST_NULL) continue;
    // Cancelling sends is deprecated, and Open MPI ignores it.
    if (!messages_[slot / kChunksInFlight].is_send) MPI_Cancel(&requests_[slot]);
    int done = 0;
    MPI_Test(&requests_[slot], &done, MPI_STATUS_IGNORE);
    if (!done) return false;
  }
  return true;
}

}  // namespace pulse
