// The sparse all-gather with its ends on a device: a trainer's entries are encoded where they lie,
// and what all sent is decoded and added up there. The bytes between the ranks, and the sum, are
// those of loco/exchange/sparse_all_gather.h, so ranks of both kinds can be in one job. Segments
// overlap as they do there (loco/exchange/pipeline.h): while one is on its way, the next is encoded
// on a stream of its own, and the one before is decoded and added.
#pragma once

#include "codec/device/update_coder.h"
#include "collective/communicator.h"
#include "collective/device_communicator.h"
#include "device/held_releases.h"
#include "loco/device/device_seals.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/pipeline.h"
#include "loco/exchange/sparse_all_gather.h"

namespace pulse::loco {

// All references must outlive the sum.
struct DeviceSumParts {
  DeviceWork& work;        // decodes and adds
  DeviceWork& encoding;    // beside it
  HeldReleases& releases;  // of both: no wait for the device while peers are waited for
  const kernels::DeviceKernels& kernels;
  Communicator& peers;  // a CheckedCommunicator ...
  // ... of this one, which takes the bytes where they are encoded (in codec small: fast ends on the
  // host); null: there is none, and they go over the host.
  DeviceCommunicator* peers_on_device;
  Sites sites;
  const kernels::KernelTable& host_kernels;
  uint64_t memory_bytes;
};

// Not thread-safe; it starts threads of its own, which select the caller's device.
class DeviceSum {
 public:
  explicit DeviceSum(const DeviceSumParts& parts);

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
  // Blocks that travel together, on their way.
  struct Segment {
    uint64_t begin = 0, length = 0;  // elements
    // On the host.
    Bytes payload;
    std::vector<Bytes> payloads;
    // On the device; sealed.
    DeviceRoom outbox, inbox;
    OwnedEvent ready;
    DeviceMessage sent;
    std::vector<DeviceMessage> received;
  };

  // Segment i of those between borders, where it lies while it is on its way.
  Segment& SlotOf(size_t i) { return slots_[i % std::size(slots_)]; }
  bool OnDevice(const AgreedRound& round) const {
    return peers_on_device_ != nullptr && round.codec.name == UpdateCodecName::kSmall;
  }
  Status SumSegments(const DeviceUpdate* mine, const AgreedRound& round,
                     const std::vector<uint64_t>& borders, DeviceSpan<const float> theta,
                     DeviceSpan<float> sum, Deadline deadline);
  // On the encoding stream.
  Status Encode(const DeviceUpdate* mine, const AgreedRound& round, Segment& segment,
                Deadline deadline);
  Status EncodeOnDevice(const DeviceUpdate* mine, Segment& segment, Deadline deadline);
  Status Transfer(const AgreedRound& round, Segment& segment, Deadline deadline);
  StatusOr<DeviceUpdate> Decode(uint32_t trainer, const AgreedRound& round, const Segment& segment,
                                DeviceSpan<const float> theta, Deadline deadline);
  // The canonical sum of what all ranks sent. theta, sum: the segment's.
  Status Fold(const AgreedRound& round, const Segment& segment, DeviceSpan<const float> theta,
              DeviceSpan<float> sum, Deadline deadline);
  Status AddSite(const std::vector<uint32_t>& site, const AgreedRound& round,
                 const Segment& segment, DeviceSpan<const float> theta, DeviceSpan<float> sum,
                 Deadline deadline);

  DeviceWork& work_;
  DeviceWork& encoding_;
  HeldReleases& releases_;
  const kernels::DeviceKernels& kernels_;
  Communicator& peers_;
  DeviceCommunicator* peers_on_device_;
  Sites sites_;
  DeviceUpdateCoder encoder_, decoder_;
  DeviceSeals sealer_, opener_;
  SparseAllGather segments_;
  Segment slots_[SegmentsAtATime(1)];
  DeviceRoom site_sum_;
  Traffic traffic_;
};

}  // namespace pulse::loco
