#include "collective/nccl/mocked_nccl.h"

#include <algorithm>
#include <cstring>

namespace pulse {

bool MockedFabric::Join(int ranks, int rank) {
  const std::scoped_lock lock(mutex_);
  joined_.resize(static_cast<size_t>(ranks));
  joined_[static_cast<size_t>(rank)] = true;
  return std::all_of(joined_.begin(), joined_.end(), [](bool joined) { return joined; });
}

void MockedFabric::Send(int from, int to, Bytes message) {
  if (tamper) tamper(from, to, message);
  const std::scoped_lock lock(mutex_);
  mailboxes_[{from, to}].push_back(std::move(message));
}

bool MockedFabric::Receive(int from, int to, uint8_t* at, uint64_t bytes, NcclCode* code) {
  const std::scoped_lock lock(mutex_);
  auto& mailbox = mailboxes_[{from, to}];
  if (mailbox.empty()) return false;
  if (mailbox.front().size() != bytes) {
    *code = kNcclInvalidUsage;
    return false;
  }
  std::memcpy(at, mailbox.front().data(), bytes);
  mailbox.pop_front();
  return true;
}

NcclCode MockedNccl::Violation(std::string what) {
  violations_.push_back(std::move(what));
  return kNcclInvalidUsage;
}

NcclCode MockedNccl::Add(Message message, DeviceStream stream) {
  if (!in_group_) return Violation("a message outside a group");
  if (live_ != 1) return Violation("a message without a communicator");
  if (message.peer < 0 || message.peer >= ranks_ || message.peer == rank_) {
    return Violation("a message to nobody");
  }
  if (!device_.IsDeviceMemory(message.at, message.bytes)) {
    return Violation("a message outside device memory");
  }
  stream_ = stream;
  group_.push_back(message);
  return 0;
}

// As far as it goes; an aborted communicator's kernels end at once.
bool MockedNccl::Run(std::vector<Message>& messages) {
  if (aborted_) return true;
  bool all = true;
  for (Message& m : messages) {
    if (!m.done && m.kind == Message::Kind::kSend) {
      fabric_->Send(rank_, m.peer, Bytes(m.at, m.at + m.bytes));
      m.done = true;
    } else if (!m.done) {
      m.done = fabric_->Receive(m.peer, rank_, m.at, m.bytes, &later_);
    }
    all = all && m.done;
  }
  return all;
}

NcclCode MockedNccl::GiveBack(bool abort) {
  const auto lock = device_.Lock();
  if (live_ != 1) return Violation("gave back a communicator that is not there");
  live_ = 0;
  aborts_ += abort ? 1 : 0;
  aborted_ = true;
  return 0;
}

NcclTable MockedNccl::Table() {
  // A failing call returns the code that the device was told, which need not be one of CUDA's.
  const auto counted = [this](auto body) {
    return [this, body](auto... args) -> NcclCode {
      const auto lock = device_.Lock();
      const NcclCode code = device_.Count();
      return code != 0 ? code : body(args...);
    };
  };
  NcclTable t;
  t.make_id = counted([](NcclId* id) { return id->fill(7), 0; });
  t.init = counted([this](void** comm, int ranks, const NcclId&, int rank) {
    ranks_ = ranks;
    rank_ = rank;
    live_ = 1;
    *comm = this;
    return kNcclInProgress;
  });
  t.async_error = counted([this](void* comm, NcclCode* state) {
    if (comm != this || live_ != 1) return Violation("asked about a communicator that is gone");
    *state = later_ != 0 ? later_ : fabric_->Join(ranks_, rank_) ? 0 : kNcclInProgress;
    return 0;
  });
  t.group_start = counted([this] {
    if (in_group_) return Violation("a group in a group");
    in_group_ = true;
    group_.clear();
    return 0;
  });
  // Never left out by failing: NCCL's group state belongs to the thread.
  t.group_end = [this] {
    const auto lock = device_.Lock();
    if (!in_group_) return Violation("the end of no group");
    in_group_ = false;
    const NcclCode code = device_.Count();
    if (code != 0) return code;
    if (!group_.empty()) {
      device_.Enqueue(stream_,
                      [this, messages = std::move(group_)]() mutable { return Run(messages); });
    }
    group_.clear();
    return kNcclInProgress;
  };
  t.send = counted([this](const void* from, uint64_t bytes, int peer, void*, DeviceStream stream) {
    auto* at = static_cast<uint8_t*>(const_cast<void*>(from));
    return Add({Message::Kind::kSend, peer, at, bytes}, stream);
  });
  t.receive = counted([this](void* to, uint64_t bytes, int peer, void*, DeviceStream stream) {
    return Add({Message::Kind::kReceive, peer, static_cast<uint8_t*>(to), bytes}, stream);
  });
  t.broadcast = counted([this](void* at, uint64_t bytes, int root, void*, DeviceStream stream) {
    auto* memory = static_cast<uint8_t*>(at);
    if (root != rank_) return Add({Message::Kind::kReceive, root, memory, bytes}, stream);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      const NcclCode code = Add({Message::Kind::kSend, peer, memory, bytes}, stream);
      if (code != 0) return code;
    }
    return 0;
  });
  t.finalize = counted([](void*) { return 0; });
  t.destroy = [this](void*) { return GiveBack(false); };
  t.abort = [this](void*) { return GiveBack(true); };
  t.describe = [](NcclCode code) { return "mocked NCCL failure " + std::to_string(code); };
  return t;
}

}  // namespace pulse
