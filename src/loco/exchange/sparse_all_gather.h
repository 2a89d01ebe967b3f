// Every rank sends its encoded sparse update to every other and adds all of them up itself.
// Receives the encoded bytes of K - 1 trainers: best for few trainers and sparse updates.
#pragma once

#include "collective/communicator.h"
#include "core/bytes.h"
#include "kernels/kernels.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/exchange.h"

namespace pulse::loco {

// Memory during Sum: all trainers' encoded and decoded updates.
class SparseAllGather final : public Exchange {
 public:
  // communicator: one rank per trainer; must outlive this.
  SparseAllGather(Communicator& communicator, const kernels::KernelTable& kernels, Sites sites)
      : communicator_(communicator), kernels_(kernels), sites_(std::move(sites)) {}

  std::string_view name() const override { return "sparse-all-gather"; }
  uint64_t Prepare(const Contribution& mine) override;
  Status Sum(std::span<const uint8_t> contributes, std::span<float> sum,
             Deadline deadline) override;
  Traffic traffic() const override { return traffic_; }

 private:
  Communicator& communicator_;
  kernels::KernelTable kernels_;
  Sites sites_;
  Bytes payload_;
  Traffic traffic_;
};

}  // namespace pulse::loco
