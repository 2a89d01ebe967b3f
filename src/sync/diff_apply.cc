#include "sync/diff_apply.h"

#include <unistd.h>

#include "sync/byte_sources.h"
#include "sync/checkpoint.h"
#include "sync/patch.h"
#include "sync/patch_writer.h"

namespace pulse {
namespace {

std::function<void(uint64_t)> Towards(const PatchFileOptions& options, uint64_t total) {
  if (!options.progress) return {};
  return [&options, total](uint64_t done) { options.progress(done, total); };
}

}  // namespace

StatusOr<PatchFileResult> DiffCheckpoints(Filesystem& fs, const kernels::KernelTable& kernels,
                                          const std::string& before, const std::string& after,
                                          const std::string& patch_path,
                                          const PatchFileOptions& options) {
  PULSE_ASSIGN_OR_RETURN(const auto old_model, Checkpoint::Open(fs, before));
  PULSE_ASSIGN_OR_RETURN(const auto new_model, Checkpoint::Open(fs, after));
  const ModelSchema& schema = new_model->schema();
  PULSE_RETURN_IF_ERROR(RequireSameSchema(old_model->schema(), before, schema, after));
  auto spool = std::make_unique<Spool>(&fs, fmt::format("{}.tmp-{}-blobs", patch_path, ::getpid()),
                                       options.memory_bytes);
  PULSE_ASSIGN_OR_RETURN(
      const EncodedDelta delta,
      EncodeDelta(kernels, ModelViewSource(old_model->view()), ModelViewSource(new_model->view()),
                  AllCells(schema), std::move(spool),
                  {.codec = options.codec,
                   .threads = options.threads,
                   .progress = Towards(options, schema.bytes())}));
  PULSE_ASSIGN_OR_RETURN(const CombinedDigests digests, CombineParts(schema, {delta.digests}));
  PayloadInfo info;
  info.base_digest = digests.base.view;
  info.target_digest = digests.target.view;
  info.tensor_digests = digests.target.tensors;
  PULSE_ASSIGN_OR_RETURN(const auto file, MakeDeltaFile(schema, delta, std::move(info)));
  PULSE_RETURN_IF_ERROR(CopyToFile(fs, *file, patch_path));
  return PatchFileResult{.patch_bytes = file->size(),
                         .view_bytes = schema.bytes(),
                         .changed = digests.changed,
                         .elements = schema.elements(),
                         .base_digest = digests.base.view,
                         .target_digest = digests.target.view};
}

StatusOr<PatchFileResult> ApplyPatch(Filesystem& fs, const kernels::KernelTable& kernels,
                                     const std::string& before, const std::string& patch_path,
                                     const std::string& out_path, const PatchFileOptions& options) {
  PULSE_ASSIGN_OR_RETURN(const auto old_model, Checkpoint::Open(fs, before));
  PULSE_ASSIGN_OR_RETURN(const auto source, MappedSource::Open(fs, patch_path));
  auto patch = PayloadFile::Open(source);
  PULSE_RETURN_IF_ERROR(Annotate(patch.status(), patch_path));
  const PayloadInfo& info = (*patch)->info();
  if (info.role != PayloadRole::kDelta) {
    return InvalidArgument("{} is a full copy, not a patch: use it as it is", patch_path);
  }
  const ModelSchema& schema = old_model->schema();
  PULSE_RETURN_IF_ERROR(RequireSameSchema(schema, before, (*patch)->schema(), patch_path));
  const ModelViewSource base(old_model->view());
  PULSE_ASSIGN_OR_RETURN(const auto rebuilt, PayloadView::Make(kernels, {*patch}, &base));
  const auto written = WriteCheckpoint(fs, out_path, *rebuilt,
                                       {.metadata = old_model->metadata(),
                                        .expected = info.target_digest,
                                        .progress = Towards(options, schema.bytes()),
                                        .threads = options.threads});
  if (absl::IsDataLoss(written.status())) {
    // One pass over the base is spent only now, to tell a wrong base from a damaged patch.
    PULSE_ASSIGN_OR_RETURN(const ViewDigests found, ComputeDigests(base));
    if (found.view != info.base_digest) {
      return FailedPrecondition(
          "{} has digest {}, but {} starts from {}: it is not the patch's base", before,
          found.view.Hex(), patch_path, info.base_digest.Hex());
    }
  }
  PULSE_RETURN_IF_ERROR(written.status());
  return PatchFileResult{.patch_bytes = source->size(),
                         .view_bytes = schema.bytes(),
                         .changed = (*patch)->changed(),
                         .elements = schema.elements(),
                         .base_digest = info.base_digest,
                         .target_digest = info.target_digest};
}

}  // namespace pulse
