#include "collective/nccl/nccl_driver.h"

#include <nccl.h>

#include <cstring>

namespace pulse {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
static_assert(ncclInvalidArgument == kNcclInvalidArgument);
static_assert(ncclInvalidUsage == kNcclInvalidUsage);
static_assert(ncclInProgress == kNcclInProgress);

ncclComm_t Raw(void* comm) {
  return static_cast<ncclComm_t>(comm);
}
cudaStream_t Raw(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

NcclCode Init(void** comm, int ranks, const NcclId& id, int rank) {
  ncclUniqueId raw;
  std::memcpy(&raw, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // every wait is ours, with a deadline
  ncclComm_t made = nullptr;
  const ncclResult_t code = ncclCommInitRankConfig(&made, ranks, raw, rank, &config);
  *comm = made;
  return code;
}

}  // namespace

NcclTable NcclDriver() {
  NcclTable t;
  t.make_id = [](NcclId* id) -> NcclCode {
    ncclUniqueId raw;
    const ncclResult_t code = ncclGetUniqueId(&raw);
    if (code == ncclSuccess) std::memcpy(id->data(), &raw, id->size());
    return code;
  };
  t.init = Init;
  t.async_error = [](void* comm, NcclCode* state) -> NcclCode {
    ncclResult_t raw = ncclSuccess;
    const ncclResult_t code = ncclCommGetAsyncError(Raw(comm), &raw);
    *state = raw;
    return code;
  };
  t.group_start = [] { return static_cast<NcclCode>(ncclGroupStart()); };
  t.group_end = [] { return static_cast<NcclCode>(ncclGroupEnd()); };
  t.send = [](const void* from, uint64_t bytes, int peer, void* comm, DeviceStream stream) {
    return static_cast<NcclCode>(ncclSend(from, bytes, ncclUint8, peer, Raw(comm), Raw(stream)));
  };
  t.receive = [](void* to, uint64_t bytes, int peer, void* comm, DeviceStream stream) {
    return static_cast<NcclCode>(ncclRecv(to, bytes, ncclUint8, peer, Raw(comm), Raw(stream)));
  };
  t.broadcast = [](void* at, uint64_t bytes, int root, void* comm, DeviceStream stream) {
    return static_cast<NcclCode>(
        ncclBroadcast(at, at, bytes, ncclUint8, root, Raw(comm), Raw(stream)));
  };
  t.finalize = [](void* comm) { return static_cast<NcclCode>(ncclCommFinalize(Raw(comm))); };
  t.destroy = [](void* comm) { return static_cast<NcclCode>(ncclCommDestroy(Raw(comm))); };
  t.abort = [](void* comm) { return static_cast<NcclCode>(ncclCommAbort(Raw(comm))); };
  t.describe = [](NcclCode code) {
    return std::string(ncclGetErrorString(static_cast<ncclResult_t>(code)));
  };
  return t;
}

std::string NcclFacts() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL of unknown version";
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

}  // namespace pulse
