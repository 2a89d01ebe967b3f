#include "collective/checked.h"

#include <algorithm>
#include <utility>

#include "core/digest.h"

namespace pulse {
namespace {

static_assert(CheckedCommunicator::kSealBytes == sizeof(Digest));

void AppendSeal(Bytes& message) {
  const Digest seal = TensorDigest(message);
  message.insert(message.end(), seal.bytes.begin(), seal.bytes.end());
}

Bytes Sealed(ByteView message) {
  Bytes sealed;
  sealed.reserve(message.size() + CheckedCommunicator::kSealBytes);
  sealed.assign(message.begin(), message.end());
  AppendSeal(sealed);
  return sealed;
}

}  // namespace

Status ArrivedDamaged(const Communicator& communicator, int sender) {
  const int rank = communicator.rank();
  return DataLoss(
      "what rank {} ({}) sent to rank {} ({}) arrived damaged; restart from the last checkpoint, "
      "and suspect these two hosts and what lies between them",
      sender, communicator.HostOf(sender), rank, communicator.HostOf(rank));
}

Status CheckedCommunicator::Break(Status status) {
  broken_ = std::move(status);
  return broken_;
}

Status CheckedCommunicator::Open(int sender, Bytes& message) {
  const bool from_other = sender != rank();
  const size_t length = message.size() - std::min(message.size(), kSealBytes);
  // A rank's own message has not been anywhere.
  if (from_other && (message.size() < kSealBytes ||
                     !std::ranges::equal(ByteView(message).subspan(length),
                                         TensorDigest(ByteView(message).first(length)).bytes))) {
    return Break(Annotate(ArrivedDamaged(*this, sender), fmt::format("call {}", calls_ - 1)));
  }
  message.resize(length);
  if (from_other) seal_bytes_received_ += kSealBytes;
  return OkStatus();
}

Status CheckedCommunicator::OpenAll(std::vector<Bytes>& messages) {
  for (size_t r = 0; r < messages.size(); ++r) {
    PULSE_RETURN_IF_ERROR(Open(static_cast<int>(r), messages[r]));
  }
  return OkStatus();
}

Status CheckedCommunicator::AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(broken_);
  ++calls_;
  std::vector<Bytes> received;
  const Status status = inner_.AllGather(Sealed(mine), received, deadline);
  if (!status.ok()) return Break(status);
  PULSE_RETURN_IF_ERROR(OpenAll(received));
  all = std::move(received);
  return OkStatus();
}

Status CheckedCommunicator::AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                                     Deadline deadline) {
  PULSE_RETURN_IF_ERROR(broken_);
  ++calls_;
  std::vector<Bytes> sealed;
  sealed.reserve(to.size());
  for (const ByteView message : to) sealed.push_back(Sealed(message));
  const std::vector<ByteView> views(sealed.begin(), sealed.end());
  std::vector<Bytes> received;
  const Status status = inner_.AllToAll(views, received, deadline);
  if (!status.ok()) return Break(status);
  PULSE_RETURN_IF_ERROR(OpenAll(received));
  from = std::move(received);
  return OkStatus();
}

Status CheckedCommunicator::Broadcast(int root, Bytes& data, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(broken_);
  ++calls_;
  if (root == rank()) {
    const size_t length = data.size();
    AppendSeal(data);
    const Status status = inner_.Broadcast(root, data, deadline);
    data.resize(length);
    return status.ok() ? status : Break(status);
  }
  Bytes received;
  const Status status = inner_.Broadcast(root, received, deadline);
  if (!status.ok()) return Break(status);
  PULSE_RETURN_IF_ERROR(Open(root, received));
  data = std::move(received);
  return OkStatus();
}

Status CheckedCommunicator::Barrier(Deadline deadline) {
  PULSE_RETURN_IF_ERROR(broken_);
  ++calls_;
  const Status status = inner_.Barrier(deadline);
  return status.ok() ? status : Break(status);
}

}  // namespace pulse
