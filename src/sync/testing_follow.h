// Rebuilds versions for the tests of this module, the way a follower would, in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "sync/chain.h"
#include "sync/testing.h"

namespace pulse::testing {

inline const kernels::KernelTable& TestKernels() {
  static const kernels::KernelTable table = *kernels::ChooseKernels("auto");
  return table;
}

// A reader that keeps what it rebuilt last.
struct Follower {
  std::optional<LocalVersion> at;
  TestModel model;
  Plan last_plan;

  // To version `number` (nullopt: the newest), every object verified, every digest checked.
  Status Follow(Store& store, const ChainOptions& options,
                std::optional<uint64_t> number = std::nullopt) {
    PULSE_ASSIGN_OR_RETURN(ChainReader chain, ChainReader::Open(store, options));
    PULSE_ASSIGN_OR_RETURN(const Plan plan, chain.PlanTo(number, at));
    last_plan = plan;
    const ModelViewSource base(model.view());
    const auto open =
        [&](const PlanStep& step,
            const ManifestObject& object) -> StatusOr<std::shared_ptr<const ByteSource>> {
      Bytes bytes;
      PULSE_RETURN_IF_ERROR(chain.Fetch(step.manifest, object, [&](ByteView piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        return OkStatus();
      }));
      return std::make_shared<OwnedSource>(std::move(bytes));
    };
    PULSE_ASSIGN_OR_RETURN(const ChainView view,
                           StackPlan(TestKernels(), plan, plan.from_local ? &base : nullptr, open));
    TestModel next{view.top->schema(), {}};
    next.tensors.resize(next.schema.tensors().size());
    Bytes scratch;
    for (const TensorRange& cell : AllCells(next.schema)) {
      PULSE_ASSIGN_OR_RETURN(const ByteView bytes, view.top->Read(cell, scratch));
      Bytes& tensor = next.tensors[cell.tensor];
      tensor.insert(tensor.end(), bytes.begin(), bytes.end());
    }
    if (ViewDigest(next.view()) != plan.target_digest) return DataLoss("rebuilt something else");
    at = LocalVersion{plan.target.id, plan.target_digest};
    model = std::move(next);
    return OkStatus();
  }
};

inline bool SameBits(const TestModel& a, const TestModel& b) {
  return a.schema == b.schema && a.tensors == b.tensors;
}

}  // namespace pulse::testing
