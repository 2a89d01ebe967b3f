// End-to-end checksums: a decorator that seals every message with the digest of its bytes and
// refuses one that arrives damaged, whatever damaged it (a link, a card, a bit of memory on the
// way). Without it a damaged chunk of a dense sum would change the sum alike on all ranks.
#pragma once

#include <string>
#include <vector>

#include "collective/communicator.h"

namespace pulse {

// kDataLoss: what `sender` sent to this rank arrived damaged.
Status ArrivedDamaged(const Communicator& communicator, int sender);

// Same calls, threads and errors as `inner`, all of whose ranks must be wrapped; and kDataLoss
// "call 12: what rank 2 (host7) sent to rank 0 (host3) arrived damaged", by the receiver alone. A
// message is kSealBytes longer on the wire, which counts against the limit on messages; the caller
// sees neither. Memory: a copy of what is sent during the call (what a broadcast's root sends, and
// what is received, is sealed and opened in place). Not for secrets: anyone can make a seal.
//
// A seal is the TensorDigest (core/digest.h) of the message: a tree, so that a device can make one.
class CheckedCommunicator final : public Communicator {
 public:
  static constexpr size_t kSealBytes = 16;

  // `inner` must outlive this.
  explicit CheckedCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& HostOf(int rank) const override { return inner_.HostOf(rank); }
  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override;
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override;
  Status Broadcast(int root, Bytes& data, Deadline deadline) override;
  Status Barrier(Deadline deadline) override;
  // Seals are framing.
  uint64_t BytesReceived() const override { return inner_.BytesReceived() - seal_bytes_received_; }

 private:
  // Keeps and returns the error.
  Status Break(Status status);
  // Takes the seal off; kDataLoss if it does not fit.
  Status Open(int sender, Bytes& message);
  Status OpenAll(std::vector<Bytes>& messages);

  Communicator& inner_;
  uint64_t calls_ = 0;
  uint64_t seal_bytes_received_ = 0;
  Status broken_;
};

}  // namespace pulse
