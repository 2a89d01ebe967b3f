#include "collective/mpi/mpi_communicator.h"

#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <set>
#include <utility>

#include "collective/chunk_plan.h"
#include "collective/mpi/back_off.h"
#include "collective/mpi/mpi_status.h"
#include "collective/mpi/mpi_transfers.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 30;
constexpr int kHeaderTag = 1;
constexpr int kPayloadTag = 2;

// One call under way, with everything that MPI reads or writes for it, the caller's own buffers
// apart.
struct CallState {
  CallState(CallHeader its_header, Deadline its_deadline)
      : header(its_header),
        deadline(its_deadline),
        budget_ns(std::max<int64_t>(its_deadline.RemainingNs(), 0)) {}

  CallHeader header;
  Deadline deadline;
  int64_t budget_ns;
  std::vector<CallHeader> sent;   // by receiver
  std::vector<CallHeader> calls;  // by sender
  std::vector<Bytes> from;        // by sender
};

ByteSpan ShareOf(ByteSpan data, size_t parts, size_t index) {
  const ByteRange range = EvenShare(data.size(), parts, index);
  return data.subspan(range.offset, range.bytes);
}

class MpiCommunicator final : public Communicator {
 public:
  // members: ranks of the job; this one is members[rank].
  MpiCommunicator(MpiSession& session, const MpiOptions& options, MPI_Comm comm,
                  std::vector<int> members, size_t rank)
      : session_(session),
        options_(options),
        comm_(comm),
        members_(std::move(members)),
        rank_(rank),
        hosts_(members_.size(), "host unknown") {}

  ~MpiCommunicator() override {
    // A broken one may have stray messages; its context is not given to another communicator.
    if (broken_.ok() && session_.broken().ok()) MPI_Comm_free(&comm_);
  }

  // Learns the hosts' names.
  Status Introduce(Deadline deadline);

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(hosts_.size()); }
  const std::string& HostOf(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }
  uint64_t BytesReceived() const override { return bytes_received_; }

  Status AllGather(ByteView mine, std::vector<Bytes>& all, Deadline deadline) override {
    const std::vector<ByteView> to(hosts_.size(), mine);
    return Guarded([&] { return Exchange(Operation::kAllGather, to, all, deadline); });
  }
  Status AllToAll(std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline) override {
    return Guarded([&] { return Exchange(Operation::kAllToAll, to, from, deadline); });
  }
  Status Broadcast(int root, Bytes& data, Deadline deadline) override {
    return Guarded([&] { return ScatterAndGather(root, data, deadline); });
  }
  Status Barrier(Deadline deadline) override {
    return Guarded([&] {
      const std::vector<ByteView> nothing(hosts_.size());
      return Meet(NewCall(Operation::kBarrier, 0, deadline), nothing);
    });
  }

 private:
  using Call = std::shared_ptr<CallState>;

  template <typename Body>
  Status Guarded(Body body);
  Call NewCall(Operation operation, int root, Deadline deadline);
  Status Exchange(Operation operation, std::span<const ByteView> to, std::vector<Bytes>& from,
                  Deadline deadline);
  Status ScatterAndGather(int root, Bytes& data, Deadline deadline);
  Status Meet(const Call& call, std::span<const ByteView> to);
  Status Run(const Call& call, std::unique_ptr<MpiTransfers> transfers);
  std::vector<int> GroupRanks(std::vector<int> peers) const;

  std::unique_ptr<MpiTransfers> NewTransfers(int tag) const {
    return std::make_unique<MpiTransfers>(comm_, tag, options_.chunk_bytes, session_.calls());
  }
  // The rank of the job, as MPI counts.
  int Peer(size_t rank) const { return members_[rank]; }
  // Every other rank, beginning with the next: all ranks at once would otherwise flood rank 0.
  template <typename Visit>
  void ForEachPeer(Visit visit) const {
    for (size_t i = 1; i < hosts_.size(); ++i) visit((rank_ + i) % hosts_.size());
  }

  MpiSession& session_;
  const MpiOptions options_;
  MPI_Comm comm_;  // of all ranks of the job, whoever the members are
  const std::vector<int> members_;
  const size_t rank_;
  std::vector<std::string> hosts_;
  uint64_t sequence_ = 0;
  uint64_t bytes_received_ = 0;
  Status broken_;
};

// Runs a call unless something broke before, and remembers its error.
template <typename Body>
Status MpiCommunicator::Guarded(Body body) {
  if (broken_.ok()) broken_ = session_.broken();
  if (!broken_.ok()) return broken_;
  try {
    broken_ = body();
  } catch (const std::bad_alloc&) {
    broken_ = ResourceExhausted("no memory for what the other ranks send");
  }
  return broken_;
}

MpiCommunicator::Call MpiCommunicator::NewCall(Operation operation, int root, Deadline deadline) {
  const CallHeader header = {.operation = operation, .sequence = sequence_++, .root = root};
  return std::make_shared<CallState>(header, deadline);
}

Status MpiCommunicator::Introduce(Deadline deadline) {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  PULSE_RETURN_IF_ERROR(MpiStatus(MPI_Get_processor_name(name, &length), "processor name"));
  const std::string_view host(name, static_cast<size_t>(length));
  std::vector<Bytes> all;
  PULSE_RETURN_IF_ERROR(AllGather(AsBytes(host), all, deadline));
  for (size_t r = 0; r < all.size(); ++r) hosts_[r] = AsText(all[r]);
  bytes_received_ = 0;
  sequence_ = 0;  // callers count their own calls
  return OkStatus();
}

// Exchanges headers, so that `calls` holds those of all ranks and all ranks agree on the call.
Status MpiCommunicator::Meet(const Call& call, std::span<const ByteView> to) {
  for (const ByteView view : to) {
    call->header.largest_bytes = std::max<uint64_t>(call->header.largest_bytes, view.size());
  }
  call->sent.assign(hosts_.size(), call->header);
  for (size_t r = 0; r < to.size(); ++r) call->sent[r].bytes = to[r].size();
  call->calls = call->sent;  // our own stays, the others arrive
  auto headers =
      std::make_unique<MpiTransfers>(comm_, kHeaderTag, sizeof(CallHeader), session_.calls());
  ForEachPeer([&](size_t peer) {
    const int p = Peer(peer);
    headers->Receive(p, {reinterpret_cast<uint8_t*>(&call->calls[peer]), sizeof(CallHeader)});
    headers->Send(p, AsBytes(std::span<const CallHeader>(&call->sent[peer], 1)));
  });
  PULSE_RETURN_IF_ERROR(Run(call, std::move(headers)));
  return CheckCalls(call->calls, options_.max_message_bytes, hosts_);
}

Status MpiCommunicator::Exchange(Operation operation, std::span<const ByteView> to,
                                 std::vector<Bytes>& from, Deadline deadline) {
  if (to.size() != hosts_.size()) {
    return InvalidArgument("{}: {} messages for {} ranks", NameOf(operation), to.size(),
                           hosts_.size());
  }
  const Call call = NewCall(operation, 0, deadline);
  PULSE_RETURN_IF_ERROR(Meet(call, to));
  call->from.resize(hosts_.size());
  auto payload = NewTransfers(kPayloadTag);
  ForEachPeer([&](size_t peer) {
    call->from[peer].resize(call->calls[peer].bytes);
    payload->Receive(Peer(peer), call->from[peer]);
    payload->Send(Peer(peer), to[peer]);
  });
  PULSE_RETURN_IF_ERROR(Run(call, std::move(payload)));
  ForEachPeer([&](size_t peer) { bytes_received_ += call->from[peer].size(); });
  call->from[rank_].assign(to[rank_].begin(), to[rank_].end());
  from = std::move(call->from);
  return OkStatus();
}

// A broadcast: root scatters equal shares, then all ranks send theirs to the others.
Status MpiCommunicator::ScatterAndGather(int root, Bytes& data, Deadline deadline) {
  const Call call = NewCall(Operation::kBroadcast, root, deadline);
  const bool is_root = root == rank();
  PULSE_RETURN_IF_ERROR(
      Meet(call, std::vector<ByteView>(hosts_.size(), is_root ? data : ByteView())));
  call->from.resize(1);
  Bytes& received = call->from.front();
  if (!is_root) received.resize(call->calls[static_cast<size_t>(root)].bytes);
  const ByteSpan whole = is_root ? ByteSpan(data) : ByteSpan(received);
  const auto share = [&](size_t r) { return ShareOf(whole, hosts_.size(), r); };

  auto scatter = NewTransfers(kPayloadTag);
  if (!is_root) scatter->Receive(Peer(static_cast<size_t>(root)), share(rank_));
  ForEachPeer([&](size_t peer) {
    if (is_root) scatter->Send(Peer(peer), share(peer));
  });
  PULSE_RETURN_IF_ERROR(Run(call, std::move(scatter)));

  auto gather = NewTransfers(kPayloadTag);
  ForEachPeer([&](size_t peer) {
    if (!is_root) gather->Receive(Peer(peer), share(peer));
    if (static_cast<int>(peer) != root) gather->Send(Peer(peer), share(rank_));
  });
  PULSE_RETURN_IF_ERROR(Run(call, std::move(gather)));
  if (!is_root) {
    bytes_received_ += received.size();
    data = std::move(received);
  }
  return OkStatus();
}

// MPI's ranks as the group counts them.
std::vector<int> MpiCommunicator::GroupRanks(std::vector<int> peers) const {
  for (int& peer : peers) {
    peer = static_cast<int>(std::find(members_.begin(), members_.end(), peer) - members_.begin());
  }
  return peers;
}

Status MpiCommunicator::Run(const Call& call, std::unique_ptr<MpiTransfers> transfers) {
  Status status = transfers->Run(call->deadline, session_.clock());
  if (status.ok()) return status;
  session_.NoteFailure();
  if (absl::IsDeadlineExceeded(status)) {
    status =
        MissingRanks(call->header, GroupRanks(transfers->LatePeers()), hosts_, call->budget_ns);
  } else {
    status = Annotate(status, Describe(call->header));
  }
  if (!transfers->CancelAll()) {
    using InFlight = std::pair<Call, std::unique_ptr<MpiTransfers>>;
    session_.KeepInFlight(std::make_shared<InFlight>(call, std::move(transfers)), status);
  }
  return status;
}

// MPI_Comm_dup blocks without a deadline, so its non-blocking sister is polled.
StatusOr<MPI_Comm> DuplicateWorld(MpiSession& session, Deadline deadline) {
  struct Duplication {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  const auto dup = std::make_shared<Duplication>();
  PULSE_RETURN_IF_ERROR(
      MpiStatus(MPI_Comm_idup(MPI_COMM_WORLD, &dup->comm, &dup->request), "MPI_Comm_idup"));
  BackOff back_off(session.clock());
  for (int done = 0;;) {
    PULSE_RETURN_IF_ERROR(
        MpiStatus(MPI_Test(&dup->request, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup"));
    if (done) break;
    if (deadline.Expired()) {
      const Status late =
          DeadlineExceeded("some of {} ranks did not open a communicator in time", session.size());
      session.KeepInFlight(dup, late);
      return late;
    }
    back_off.Wait();
  }
  MPI_Comm_set_errhandler(dup->comm, MPI_ERRORS_RETURN);
  return dup->comm;
}

}  // namespace

StatusOr<std::unique_ptr<Communicator>> OpenMpiCommunicator(MpiSession& session,
                                                            const MpiOptions& options,
                                                            Deadline deadline) {
  std::vector<int> everyone(static_cast<size_t>(session.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return OpenMpiGroup(session, everyone, options, deadline);
}

StatusOr<std::unique_ptr<Communicator>> OpenMpiGroup(MpiSession& session,
                                                     const std::vector<int>& members,
                                                     const MpiOptions& options, Deadline deadline) {
  PULSE_RETURN_IF_ERROR(session.broken());
  if (options.chunk_bytes < 1 || options.chunk_bytes > kMaxChunkBytes) {
    return InvalidArgument("chunk_bytes is {}, expected 1 to {}", options.chunk_bytes,
                           kMaxChunkBytes);
  }
  const auto mine = std::find(members.begin(), members.end(), session.rank());
  const std::set<int> distinct(members.begin(), members.end());
  if (mine == members.end() || distinct.size() != members.size() || *distinct.begin() < 0 ||
      *distinct.rbegin() >= session.size()) {
    return InvalidArgument("a group of ranks {} can't be opened by rank {} of {}",
                           fmt::join(members, ", "), session.rank(), session.size());
  }
  PULSE_ASSIGN_OR_RETURN(const MPI_Comm comm, DuplicateWorld(session, deadline));
  auto communicator = std::make_unique<MpiCommunicator>(
      session, options, comm, members, static_cast<size_t>(mine - members.begin()));
  PULSE_RETURN_IF_ERROR(communicator->Introduce(deadline));
  return communicator;
}

}  // namespace pulse
