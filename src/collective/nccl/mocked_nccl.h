// A mocked driver table of NCCL, named so: ranks are threads with a MockedDevice each, and messages
// lie in a mailbox. It keeps NCCL's rules (groups, streams, equal sizes, asynchronous errors) and
// fails any call on request. For tests of the communicator; nothing here says that NCCL works.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collective/nccl/nccl_table.h"
#include "core/bytes.h"
#include "device/mocked_device.h"

namespace pulse {

// What the ranks of one id share. Thread-safe.
class MockedFabric {
 public:
  // True once all ranks have come.
  bool Join(int ranks, int rank);
  void Send(int from, int to, Bytes message);
  // False while there is none. A message of another length is the mistake of both: *code says so.
  bool Receive(int from, int to, uint8_t* at, uint64_t bytes, NcclCode* code);

  // Called for every message; may damage it, and may be called by several threads. Set before.
  std::function<void(int from, int to, Bytes& message)> tamper;

 private:
  std::mutex mutex_;
  std::vector<bool> joined_;
  std::map<std::pair<int, int>, std::deque<Bytes>> mailboxes_;
};

// One rank's table. `device` must outlive it.
class MockedNccl {
 public:
  MockedNccl(std::shared_ptr<MockedFabric> fabric, MockedDevice& device)
      : fabric_(std::move(fabric)), device_(device) {}

  NcclTable Table();
  // The asynchronous error from now on.
  void FailLater(NcclCode code) { later_ = code; }
  // Communicators made and not given back; more than one give-back is a violation of the device.
  int live() const { return live_; }
  int aborts() const { return aborts_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Message {
    enum class Kind { kSend, kReceive } kind;
    int peer;
    uint8_t* at;
    uint64_t bytes;
    bool done = false;
  };

  NcclCode Violation(std::string what);
  NcclCode Add(Message message, DeviceStream stream);
  bool Run(std::vector<Message>& messages);
  NcclCode GiveBack(bool abort);

  std::shared_ptr<MockedFabric> fabric_;
  MockedDevice& device_;
  int ranks_ = 0, rank_ = 0;
  bool in_group_ = false, aborted_ = false;
  DeviceStream stream_;
  std::vector<Message> group_;
  NcclCode later_ = 0;
  int live_ = 0, aborts_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace pulse
