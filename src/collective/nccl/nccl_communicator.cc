#include "collective/nccl/nccl_communicator.h"

#include <algorithm>
#include <new>
#include <optional>

#include "collective/chunk_plan.h"
#include "collective/nccl/nccl_link.h"
#include "device/staging_ring.h"

namespace pulse {
namespace {

// Late headers are looked for after the deadline: 80 bytes a rank from a device that works.
constexpr int64_t kLookForLateMs = 1000;
constexpr int kSets = 2;  // chunks with NCCL or on their way back

constexpr uint64_t kInboxAlignment = 16;  // of one access on the device

template <typename Message>
std::vector<uint64_t> SizesOf(std::span<const Message> messages) {
  std::vector<uint64_t> sizes;
  for (const Message& message : messages) {
    if constexpr (std::is_same_v<Message, DeviceMessage>) {
      sizes.push_back(message.size);
    } else {
      sizes.push_back(message.size());
    }
  }
  return sizes;
}

// One call under way.
struct CallState {
  CallHeader header;
  Deadline deadline;
  int64_t budget_ns;
  std::vector<CallHeader> calls;  // by sender
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(const DeviceDriver& device, Clock& clock, const NcclOptions& options)
      : device_(device),
        clock_(clock),
        options_(options),
        rank_(static_cast<size_t>(options.rank)),
        ranks_(options.hosts.size()) {}

  ~NcclCommunicator() override {
    // A broken one was aborted already. Before the buffers go, so that no kernel uses them.
    link_.reset();
  }

  Status Open(const NcclTable& nccl, Deadline deadline);

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(ranks_); }
  const std::string& HostOf(int rank) const override {
    return options_.hosts[static_cast<size_t>(rank)];
  }
  uint64_t BytesReceived() const override { return bytes_received_; }

  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    const std::vector<ByteView> to(ranks_, mine);
    return Guarded([&] { return Exchange(Operation::kAllGather, to, all, deadline); });
  }
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    return Guarded([&] { return Exchange(Operation::kAllToAll, to, from, deadline); });
  }
  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    return Guarded([&] { return FromRoot(root, data, deadline); });
  }
  Status Barrier(Deadline deadline) override {
    return Guarded([&] {
      CallState call = NewCall(Operation::kBarrier, 0, deadline);
      return Meet(call, std::vector<uint64_t>(ranks_));
    });
  }

  Status AllGatherOnDevice(DeviceMessage mine, DeviceEvent ready, const DeviceInbox& inbox,
                           std::vector<DeviceMessage>& all, Deadline deadline) override {
    const std::vector<DeviceMessage> to(ranks_, mine);
    return Guarded(
        [&] { return ExchangeOnDevice(Operation::kAllGather, to, ready, inbox, all, deadline); });
  }
  Status AllToAllOnDevice(std::span<const DeviceMessage> to, DeviceEvent ready,
                          const DeviceInbox& inbox, std::vector<DeviceMessage>& from,
                          Deadline deadline) override {
    return Guarded(
        [&] { return ExchangeOnDevice(Operation::kAllToAll, to, ready, inbox, from, deadline); });
  }
  Status BroadcastOnDevice(int root, DeviceMessage* data, DeviceEvent ready,
                           const DeviceInbox& inbox, Deadline deadline) override {
    return Guarded([&] { return FromRootOnDevice(root, data, ready, inbox, deadline); });
  }

 private:
  // What is with NCCL: chunk `index` of every message, in a set of device buffers.
  struct Set {
    DeviceBuffer out, in;  // a chunk a rank each
    OwnedEvent done;
  };

  template <typename Body>
  Status Guarded(Body body);
  CallState NewCall(Operation operation, int root, Deadline deadline);
  Status Meet(CallState& call, std::span<const uint64_t> bytes_to);
  Status SwapHeaders(CallState& call, const std::vector<CallHeader>& sent);
  Status Exchange(Operation operation, std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline);
  Status SendChunk(uint64_t index, std::span<const ByteView> to, bool same_to_all,
                   std::span<const Bytes> from, Deadline deadline);
  Status TakeChunk(uint64_t index, std::vector<Bytes>& from, const CallState& call);
  Status FromRoot(int root, Bytes& data, Deadline deadline);
  Status ExchangeOnDevice(Operation operation, std::span<const DeviceMessage> to, DeviceEvent ready,
                          const DeviceInbox& inbox, std::vector<DeviceMessage>& from,
                          Deadline deadline);
  Status FromRootOnDevice(int root, DeviceMessage* data, DeviceEvent ready,
                          const DeviceInbox& inbox, Deadline deadline);
  Status AwaitReady(DeviceEvent ready);
  Status AwaitChunk(const Set& set, const CallState& call);
  Status Late(const CallState& call, std::vector<int> missing) const {
    return MissingRanks(call.header, missing, options_.hosts, call.budget_ns);
  }
  std::vector<int> RanksWithoutHeader(const CallState& call);
  std::vector<int> Others() const {
    std::vector<int> others;
    for (size_t r = 0; r < ranks_; ++r) {
      if (r != rank_) others.push_back(static_cast<int>(r));
    }
    return others;
  }

  DeviceSpan<uint8_t> Place(const DeviceBuffer& buffer, size_t rank, uint64_t bytes) const {
    return buffer.span().subspan(rank * options_.chunk_bytes, bytes);
  }
  uint64_t BytesOfChunk(uint64_t total, uint64_t index) const {
    const ChunkPlan plan(total, options_.chunk_bytes);
    return index < plan.count() ? plan.BytesOf(index) : 0;
  }
  uint64_t ChunksOf(uint64_t total) const { return ChunkPlan(total, options_.chunk_bytes).count(); }

  const DeviceDriver& device_;
  Clock& clock_;
  const NcclOptions options_;
  const size_t rank_;
  const size_t ranks_;
  std::unique_ptr<NcclLink> link_;
  OwnedStream back_;  // copies to the host, beside NCCL's stream
  DeviceBuffer headers_out_, headers_in_;
  OwnedEvent headers_done_;
  Set sets_[kSets];
  std::optional<StagingRing> up_, down_;
  uint64_t sequence_ = 0;
  uint64_t bytes_received_ = 0;
  Status broken_;
};

Status NcclCommunicator::Open(const NcclTable& nccl, Deadline deadline) {
  PULSE_ASSIGN_OR_RETURN(back_, OwnedStream::Open(device_));
  PULSE_ASSIGN_OR_RETURN(headers_out_, DeviceBuffer::Open(device_, ranks_ * sizeof(CallHeader)));
  PULSE_ASSIGN_OR_RETURN(headers_in_, DeviceBuffer::Open(device_, ranks_ * sizeof(CallHeader)));
  PULSE_ASSIGN_OR_RETURN(headers_done_, OwnedEvent::Open(device_));
  for (Set& set : sets_) {
    PULSE_ASSIGN_OR_RETURN(set.out, DeviceBuffer::Open(device_, ranks_ * options_.chunk_bytes));
    PULSE_ASSIGN_OR_RETURN(set.in, DeviceBuffer::Open(device_, ranks_ * options_.chunk_bytes));
    PULSE_ASSIGN_OR_RETURN(set.done, OwnedEvent::Open(device_));
  }
  StagingOptions staging;
  staging.slot_bytes = std::min(staging.slot_bytes, options_.chunk_bytes);
  staging.slot_bytes = std::max<uint64_t>(staging.slot_bytes, sizeof(CallHeader));
  PULSE_ASSIGN_OR_RETURN(up_, StagingRing::Open(device_, clock_, staging));
  PULSE_ASSIGN_OR_RETURN(down_, StagingRing::Open(device_, clock_, staging));
  PULSE_ASSIGN_OR_RETURN(
      link_, NcclLink::Open(device_, nccl, clock_, options_.id, size(), rank(), deadline));
  return OkStatus();
}

// Runs a call unless something broke before. Whatever breaks it ends what is under way, so that no
// buffer is used any more and peers see that we are gone.
template <typename Body>
Status NcclCommunicator::Guarded(Body body) {
  if (!broken_.ok()) return broken_;
  try {
    broken_ = body();
  } catch (const std::bad_alloc&) {
    broken_ = ResourceExhausted("no memory for the messages that were announced");
  }
  if (!broken_.ok()) link_->Abort();
  return broken_;
}

CallState NcclCommunicator::NewCall(Operation operation, int root, Deadline deadline) {
  CallHeader header;
  header.operation = operation;
  header.sequence = sequence_++;
  header.root = root;
  return {header, deadline, std::max<int64_t>(deadline.RemainingNs(), 0), {}};
}

// bytes_to: of this rank's message to each.
Status NcclCommunicator::Meet(CallState& call, std::span<const uint64_t> bytes_to) {
  for (const uint64_t bytes : bytes_to) {
    call.header.largest_bytes = std::max(call.header.largest_bytes, bytes);
  }
  std::vector<CallHeader> sent(ranks_, call.header);
  for (size_t r = 0; r < ranks_; ++r) sent[r].bytes = bytes_to[r];
  call.calls = sent;  // our own stays, the others arrive
  PULSE_RETURN_IF_ERROR(SwapHeaders(call, sent));
  return CheckCalls(call.calls, options_.max_message_bytes, options_.hosts);
}

Status NcclCommunicator::SwapHeaders(CallState& call, const std::vector<CallHeader>& sent) {
  const DeviceStream stream = link_->stream();
  PULSE_RETURN_IF_ERROR(
      DeviceStatus(device_, device_.fill(headers_in_.get(), 0, ranks_ * sizeof(CallHeader), stream),
                   "clearing headers"));
  PULSE_RETURN_IF_ERROR(
      up_->Upload(AsBytes(std::span(sent)), headers_out_.span(), stream, call.deadline));
  std::vector<NcclMessage> messages;
  for (size_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    const uint64_t at = r * sizeof(CallHeader);
    messages.push_back({NcclMessage::Kind::kSend, static_cast<int>(r),
                        headers_out_.span().data + at, sizeof(CallHeader)});
    messages.push_back({NcclMessage::Kind::kReceive, static_cast<int>(r),
                        headers_in_.span().data + at, sizeof(CallHeader)});
  }
  Status status = link_->Enqueue(messages, headers_done_.get(), call.deadline);
  if (status.ok()) status = link_->Await(headers_done_.get(), call.deadline);
  if (absl::IsDeadlineExceeded(status)) return Late(call, RanksWithoutHeader(call));
  PULSE_RETURN_IF_ERROR(Annotate(status, Describe(call.header)));
  std::vector<CallHeader> received(ranks_);
  const ByteSpan bytes{reinterpret_cast<uint8_t*>(received.data()), ranks_ * sizeof(CallHeader)};
  PULSE_RETURN_IF_ERROR(down_->Download(headers_in_.span(), bytes, back_.get(), call.deadline));
  received[rank_] = call.calls[rank_];
  call.calls = std::move(received);
  return OkStatus();
}

// NCCL ends a group as a whole, but writes what has come: a header that is still zero has not.
std::vector<int> NcclCommunicator::RanksWithoutHeader(const CallState&) {
  std::vector<CallHeader> received(ranks_);
  for (CallHeader& header : received) header.magic = 0;
  const ByteSpan bytes{reinterpret_cast<uint8_t*>(received.data()), ranks_ * sizeof(CallHeader)};
  const Deadline deadline = Deadline::After(clock_, kLookForLateMs);
  const Status looked = down_->Download(headers_in_.span(), bytes, back_.get(), deadline);
  std::vector<int> missing;
  for (size_t r = 0; r < ranks_; ++r) {
    if (r != rank_ && (!looked.ok() || received[r].magic == 0)) {
      missing.push_back(static_cast<int>(r));
    }
  }
  if (!missing.empty()) return missing;
  // All sent theirs, so somebody has not taken ours: NCCL does not say who.
  for (size_t r = 0; r < ranks_; ++r) {
    if (r != rank_) missing.push_back(static_cast<int>(r));
  }
  return missing;
}

Status NcclCommunicator::Exchange(Operation operation, std::span<const ByteView> to,
                                  std::vector<Bytes>& from, Deadline deadline) {
  if (to.size() != ranks_) {
    return InvalidArgument("{}: {} messages for {} ranks", NameOf(operation), to.size(), ranks_);
  }
  CallState call = NewCall(operation, 0, deadline);
  PULSE_RETURN_IF_ERROR(Meet(call, SizesOf(to)));
  std::vector<Bytes> received(ranks_);
  uint64_t chunks = 0;
  for (size_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    received[r].resize(call.calls[r].bytes);
    chunks = std::max({chunks, ChunksOf(to[r].size()), ChunksOf(received[r].size())});
  }
  const bool same_to_all = operation == Operation::kAllGather;
  // One step more than chunks: the last one only takes.
  for (uint64_t index = 0; index <= chunks && chunks > 0; ++index) {
    if (index < chunks) {
      PULSE_RETURN_IF_ERROR(SendChunk(index, to, same_to_all, received, deadline));
    }
    if (index > 0) PULSE_RETURN_IF_ERROR(TakeChunk(index - 1, received, call));
  }
  for (size_t r = 0; r < ranks_; ++r) bytes_received_ += received[r].size();
  received[rank_].assign(to[rank_].begin(), to[rank_].end());
  from = std::move(received);
  return OkStatus();
}

// Chunk `index` of every message that has one: up to the device, and into one group.
Status NcclCommunicator::SendChunk(uint64_t index, std::span<const ByteView> to, bool same_to_all,
                                   std::span<const Bytes> from, Deadline deadline) {
  const Set& set = sets_[index % kSets];
  const uint64_t offset = index * options_.chunk_bytes;
  std::vector<NcclMessage> messages;
  bool uploaded = false;
  for (size_t i = 1; i < ranks_; ++i) {
    const size_t peer = (rank_ + i) % ranks_;
    const int p = static_cast<int>(peer);
    const uint64_t in = BytesOfChunk(from[peer].size(), index);
    if (in > 0) {
      messages.push_back({NcclMessage::Kind::kReceive, p, Place(set.in, peer, in).data, in});
    }
    const uint64_t out = BytesOfChunk(to[peer].size(), index);
    if (out == 0) continue;
    const DeviceSpan<uint8_t> place = Place(set.out, same_to_all ? 0 : peer, out);
    if (!same_to_all || !uploaded) {
      PULSE_RETURN_IF_ERROR(
          up_->Upload(to[peer].subspan(offset, out), place, link_->stream(), deadline));
      uploaded = true;
    }
    messages.push_back({NcclMessage::Kind::kSend, p, place.data, out});
  }
  return link_->Enqueue(messages, set.done.get(), deadline);
}

// Until what was enqueued with a set is over.
Status NcclCommunicator::AwaitChunk(const Set& set, const CallState& call) {
  const Status status = link_->Await(set.done.get(), call.deadline);
  // They all came to the call; which of them stopped amid it, NCCL does not say.
  if (absl::IsDeadlineExceeded(status)) return Late(call, Others());
  return Annotate(status, Describe(call.header));
}

// Waits for chunk `index`, and brings what was received to the host.
Status NcclCommunicator::TakeChunk(uint64_t index, std::vector<Bytes>& from,
                                   const CallState& call) {
  const Set& set = sets_[index % kSets];
  PULSE_RETURN_IF_ERROR(AwaitChunk(set, call));
  for (const int r : Others()) {
    Bytes& message = from[static_cast<size_t>(r)];
    const uint64_t bytes = BytesOfChunk(message.size(), index);
    if (bytes == 0) continue;
    PULSE_RETURN_IF_ERROR(
        down_->Download(Place(set.in, static_cast<size_t>(r), bytes),
                        ByteSpan(message).subspan(index * options_.chunk_bytes, bytes), back_.get(),
                        call.deadline));
  }
  return OkStatus();
}

Status NcclCommunicator::FromRoot(int root, Bytes& data, Deadline deadline) {
  CallState call = NewCall(Operation::kBroadcast, root, deadline);
  const bool is_root = root == rank();
  PULSE_RETURN_IF_ERROR(Meet(call, std::vector<uint64_t>(ranks_, is_root ? data.size() : 0)));
  // As messages of one sender: root's place in `received` holds them, also on root itself.
  const size_t from = static_cast<size_t>(root);
  std::vector<Bytes> received(ranks_);
  const uint64_t total = is_root ? data.size() : call.calls[from].bytes;
  if (!is_root) received[from].resize(total);
  const uint64_t chunks = ranks_ > 1 ? ChunksOf(total) : 0;
  for (uint64_t index = 0; index <= chunks && chunks > 0; ++index) {
    if (index < chunks) {
      const Set& set = sets_[index % kSets];
      const uint64_t bytes = BytesOfChunk(total, index);
      const DeviceSpan<uint8_t> place = Place(is_root ? set.out : set.in, from, bytes);
      if (is_root) {
        PULSE_RETURN_IF_ERROR(
            up_->Upload(ByteView(data).subspan(index * options_.chunk_bytes, bytes), place,
                        link_->stream(), deadline));
      }
      const NcclMessage message{NcclMessage::Kind::kBroadcast, root, place.data, bytes};
      PULSE_RETURN_IF_ERROR(link_->Enqueue({&message, 1}, set.done.get(), deadline));
    }
    if (index > 0) PULSE_RETURN_IF_ERROR(TakeChunk(index - 1, received, call));
  }
  if (!is_root) {
    bytes_received_ += total;
    data = std::move(received[from]);
  }
  return OkStatus();
}

// NCCL's stream waits for what the caller's stream writes.
Status NcclCommunicator::AwaitReady(DeviceEvent ready) {
  if (ready.handle == nullptr) return OkStatus();
  return DeviceStatus(device_, device_.wait(link_->stream(), ready), "waiting for the messages");
}

// The messages lie where NCCL takes and puts them: nothing is staged but the headers. Chunk c of
// all of them is the c-th group, as on ranks whose messages are on the host.
Status NcclCommunicator::ExchangeOnDevice(Operation operation, std::span<const DeviceMessage> to,
                                          DeviceEvent ready, const DeviceInbox& inbox,
                                          std::vector<DeviceMessage>& from, Deadline deadline) {
  if (to.size() != ranks_) {
    return InvalidArgument("{}: {} messages for {} ranks", NameOf(operation), to.size(), ranks_);
  }
  CallState call = NewCall(operation, 0, deadline);
  PULSE_RETURN_IF_ERROR(Meet(call, SizesOf(to)));
  std::vector<uint64_t> begins(ranks_);
  uint64_t total = 0, chunks = 0;
  for (const int r : Others()) {
    const auto peer = static_cast<size_t>(r);
    begins[peer] = total;
    total += (call.calls[peer].bytes + kInboxAlignment - 1) / kInboxAlignment * kInboxAlignment;
    chunks = std::max({chunks, ChunksOf(to[peer].size), ChunksOf(call.calls[peer].bytes)});
  }
  PULSE_ASSIGN_OR_RETURN(const DeviceSpan<uint8_t> room, inbox(total));
  if (room.size < total) return Internal("an inbox of {} bytes for {}", room.size, total);
  PULSE_RETURN_IF_ERROR(AwaitReady(ready));
  for (uint64_t index = 0; index < chunks; ++index) {
    const Set& set = sets_[index % kSets];
    if (index >= kSets) PULSE_RETURN_IF_ERROR(AwaitChunk(set, call));
    const uint64_t offset = index * options_.chunk_bytes;
    std::vector<NcclMessage> messages;
    for (size_t i = 1; i < ranks_; ++i) {
      const size_t peer = (rank_ + i) % ranks_;
      const int p = static_cast<int>(peer);
      const uint64_t in = BytesOfChunk(call.calls[peer].bytes, index);
      if (in > 0) {
        messages.push_back({NcclMessage::Kind::kReceive, p, room.data + begins[peer] + offset, in});
      }
      const uint64_t out = BytesOfChunk(to[peer].size, index);
      if (out == 0) continue;
      // NCCL only reads it.
      messages.push_back(
          {NcclMessage::Kind::kSend, p, const_cast<uint8_t*>(to[peer].data) + offset, out});
    }
    PULSE_RETURN_IF_ERROR(link_->Enqueue(messages, set.done.get(), deadline));
  }
  for (uint64_t last = 0; last < std::min<uint64_t>(chunks, kSets); ++last) {
    PULSE_RETURN_IF_ERROR(AwaitChunk(sets_[last], call));
  }
  std::vector<DeviceMessage> received(ranks_);
  received[rank_] = to[rank_];
  for (const int r : Others()) {
    const auto peer = static_cast<size_t>(r);
    received[peer] = room.subspan(begins[peer], call.calls[peer].bytes);
    bytes_received_ += received[peer].size;
  }
  from = std::move(received);
  return OkStatus();
}

Status NcclCommunicator::FromRootOnDevice(int root, DeviceMessage* data, DeviceEvent ready,
                                          const DeviceInbox& inbox, Deadline deadline) {
  CallState call = NewCall(Operation::kBroadcast, root, deadline);
  const bool is_root = root == rank();
  PULSE_RETURN_IF_ERROR(Meet(call, std::vector<uint64_t>(ranks_, is_root ? data->size : 0)));
  DeviceSpan<uint8_t> at(const_cast<uint8_t*>(data->data), data->size);  // root's is only read
  if (!is_root) {
    const uint64_t bytes = call.calls[static_cast<size_t>(root)].bytes;
    PULSE_ASSIGN_OR_RETURN(const DeviceSpan<uint8_t> room, inbox(bytes));
    if (room.size < bytes) return Internal("an inbox of {} bytes for {}", room.size, bytes);
    at = room.first(bytes);
  }
  PULSE_RETURN_IF_ERROR(AwaitReady(ready));
  const uint64_t chunks = ranks_ > 1 ? ChunksOf(at.size) : 0;
  for (uint64_t index = 0; index < chunks; ++index) {
    const Set& set = sets_[index % kSets];
    if (index >= kSets) PULSE_RETURN_IF_ERROR(AwaitChunk(set, call));
    const NcclMessage message{NcclMessage::Kind::kBroadcast, root,
                              at.data + index * options_.chunk_bytes, BytesOfChunk(at.size, index)};
    PULSE_RETURN_IF_ERROR(link_->Enqueue({&message, 1}, set.done.get(), deadline));
  }
  for (uint64_t last = 0; last < std::min<uint64_t>(chunks, kSets); ++last) {
    PULSE_RETURN_IF_ERROR(AwaitChunk(sets_[last], call));
  }
  if (!is_root) {
    bytes_received_ += at.size;
    *data = at;
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<DeviceCommunicator>> OpenNcclCommunicator(const DeviceDriver& device,
                                                                   const NcclTable& nccl,
                                                                   Clock& clock,
                                                                   const NcclOptions& options,
                                                                   Deadline deadline) {
  if (options.rank < 0 || static_cast<size_t>(options.rank) >= options.hosts.size()) {
    return InvalidArgument("rank {} of {}; hosts needs one name a rank", options.rank,
                           options.hosts.size());
  }
  if (options.chunk_bytes < 1) return InvalidArgument("chunk_bytes is 0, expected at least 1");
  auto communicator = std::make_unique<NcclCommunicator>(device, clock, options);
  PULSE_RETURN_IF_ERROR(communicator->Open(nccl, deadline));
  return std::unique_ptr<DeviceCommunicator>(std::move(communicator));
}

StatusOr<std::unique_ptr<DeviceCommunicator>> OpenNcclOver(Communicator& bootstrap,
                                                           const DeviceDriver& device,
                                                           const NcclTable& nccl, Clock& clock,
                                                           NcclOptions options, Deadline deadline) {
  options.rank = bootstrap.rank();
  options.hosts.clear();
  for (int r = 0; r < bootstrap.size(); ++r) options.hosts.push_back(bootstrap.HostOf(r));
  // What rank 0 could not make is nobody's: an empty message says so to all.
  Bytes id;
  Status made;
  if (bootstrap.rank() == 0) {
    made = NcclStatus(nccl, nccl.make_id(&options.id), "ncclGetUniqueId");
    if (made.ok()) id.assign(options.id.begin(), options.id.end());
  }
  PULSE_RETURN_IF_ERROR(Annotate(bootstrap.Broadcast(0, id, deadline), "bringing NCCL's id"));
  PULSE_RETURN_IF_ERROR(made);
  if (id.size() != options.id.size()) {
    return Unavailable("rank 0 ({}) could not make an id for NCCL", bootstrap.HostOf(0));
  }
  std::copy(id.begin(), id.end(), options.id.begin());
  return OpenNcclCommunicator(device, nccl, clock, options, deadline);
}

}  // namespace pulse
