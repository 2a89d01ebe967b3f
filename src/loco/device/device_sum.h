// The sparse all-gather with its ends on a device: a trainer's entries are encoded where they lie,
// and what all sent is decoded and added up there. The bytes between the ranks, and the sum, are
// those of loco/exchange/sparse_all_gather.h, so ranks of both kinds can be in one job.
#pragma once

#include "codec/device/update_coder.h"
#include "collective/communicator.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/sparse_all_gather.h"

namespace pulse::loco {

// Not thread-safe. All references must outlive it.
class DeviceSum {
 public:
  DeviceSum(DeviceWork& work, const kernels::DeviceKernels& kernels, Communicator& communicator,
            Sites sites, const kernels::KernelTable& host_kernels, uint64_t memory_bytes)
      : work_(work),
        kernels_(kernels),
        communicator_(communicator),
        sites_(sites),
        coder_(work, kernels),
        segments_(communicator, host_kernels, std::move(sites), memory_bytes) {}

  // Collective: overwrites `sum` with the canonical sum. mine: null for a trainer that does not
  // contribute. theta: the round's, on the device. False, and nothing is summed, where a block
  // alone needs more memory than there is: then *borders are those that the ranks have agreed on,
  // for SumSegments of the host's exchange. Errors as of Exchange::Sum.
  StatusOr<bool> Sum(const DeviceUpdate* mine, const AgreedRound& round,
                     DeviceSpan<const float> theta, DeviceSpan<float> sum,
                     std::vector<uint64_t>* borders, Deadline deadline);

  // Where Sum returned false.
  SparseAllGather& host() { return segments_; }
  Traffic traffic() const { return traffic_; }

 private:
  // The canonical sum of what all ranks sent of blocks that begin at element `begin`.
  Status Fold(const std::vector<Bytes>& payloads, const AgreedRound& round,
              DeviceSpan<const float> theta, DeviceSpan<float> sum, Deadline deadline);
  Status AddSite(const std::vector<uint32_t>& site, const std::vector<Bytes>& payloads,
                 const AgreedRound& round, DeviceSpan<const float> theta, DeviceSpan<float> sum,
                 Deadline deadline);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  Communicator& communicator_;
  Sites sites_;
  DeviceUpdateCoder coder_;
  SparseAllGather segments_;
  DeviceRoom site_sum_;
  Traffic traffic_;
};

}  // namespace pulse::loco
