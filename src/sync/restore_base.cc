#include "sync/restore_base.h"

#include "sync/byte_sources.h"

namespace pulse {
namespace {

// A chain that lies in the bucket, read cell by cell.
class ViewInBucket final : public ViewSource {
 public:
  explicit ViewInBucket(ChainView chain) : chain_(std::move(chain)) {}
  const ModelSchema& schema() const override { return chain_.top->schema(); }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override {
    return chain_.top->Read(range, scratch);
  }

 private:
  ChainView chain_;
};

Status Rebuild(ChainReader& chain, const kernels::KernelTable& kernels, const VersionId& id,
               const std::vector<TensorRange>& ranges, const std::optional<LocalVersion>& known,
               StagedBase& base) {
  // Only a base of the whole model can carry deltas of other ranges.
  const bool usable =
      known && base.keeps_copy() && base.view() && base.version() == known->id && ranges.empty();
  PULSE_ASSIGN_OR_RETURN(const Plan plan,
                         chain.PlanTo(id.number, usable ? known : std::optional<LocalVersion>()));
  const auto open = [&](const PlanStep& step, const ManifestObject& object) {
    return StatusOr<std::shared_ptr<const ByteSource>>(std::make_shared<ObjectSource>(
        chain.store(), ObjectKey(chain.run(), step.manifest.id, object.Name()), object.bytes));
  };
  PULSE_ASSIGN_OR_RETURN(ChainView view,
                         StackPlan(kernels, plan, plan.from_local ? base.view() : nullptr, open));
  if (!base.keeps_copy()) {
    base.Use(id, std::make_unique<ViewInBucket>(std::move(view)));
    return OkStatus();
  }
  PULSE_RETURN_IF_ERROR(base.Stage(id, *view.top, ranges, /*unchanged=*/false));
  return base.Promote(id, *view.top, ranges);
}

}  // namespace

Status RestoreBase(ChainReader& chain, const kernels::KernelTable& kernels, const VersionId& id,
                   const std::vector<TensorRange>& ranges, const std::optional<LocalVersion>& known,
                   StagedBase& base) {
  if (base.Load(id, ranges)) return OkStatus();
  const Status rebuilt = Rebuild(chain, kernels, id, ranges, known, base);
  if (!rebuilt.ok()) base.Drop();
  return rebuilt;
}

bool BaseIsLost(const Status& error) {
  return absl::IsDataLoss(error) || absl::IsNotFound(error) || absl::IsFailedPrecondition(error) ||
         absl::IsPermissionDenied(error) || absl::IsUnimplemented(error) ||
         absl::IsInvalidArgument(error);  // this rank's ranges are those of another schema
}

}  // namespace pulse
