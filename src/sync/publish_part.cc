#include "sync/publish_part.h"

#include "sync/fetch.h"

namespace pulse {
namespace {

std::vector<TensorRange> RangesOf(const PartOptions& options, const ModelSchema& schema) {
  return options.ranges.empty() ? AllCells(schema) : options.ranges;
}

std::unique_ptr<Spool> MakeSpool(Filesystem& fs, const PartOptions& options,
                                 const Attempt& attempt) {
  std::string path;
  if (!options.spool_directory.empty()) {
    path =
        fmt::format("{}/blobs-{}-{:05}", options.spool_directory, attempt.id.nonce, options.part);
  }
  return std::make_unique<Spool>(&fs, std::move(path), options.memory_bytes);
}

PayloadInfo InfoOf(const PartOptions& options, const Attempt& attempt, PayloadRole role,
                   const CombinedDigests& digests) {
  PayloadInfo info;
  info.role = role;
  info.run = options.run;
  info.target = attempt.id.Short();
  info.target_digest = digests.target.view;
  if (role == PayloadRole::kDelta) {
    info.base = attempt.base->Short();
    info.base_digest = digests.base.view;
    info.tensor_digests = digests.target.tensors;
  }
  return info;
}

Status CheckStored(Store& store, const std::string& key, uint64_t bytes, const std::string& sha256,
                   bool read_back) {
  if (read_back) {
    return FetchObject(store, key, {.bytes = bytes, .sha256 = sha256},
                       [](ByteView) { return OkStatus(); });
  }
  PULSE_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  if (info.bytes == bytes) return OkStatus();
  return DataLoss("{}: the store holds {} bytes, {} were put", key, info.bytes, bytes);
}

}  // namespace

StatusOr<EncodedPart> EncodePart(Filesystem& fs, const kernels::KernelTable& kernels,
                                 const PartOptions& options, const Attempt& attempt,
                                 const ViewSource* before, const ViewSource& after,
                                 const std::function<void(uint64_t)>& progress) {
  const std::vector<TensorRange> ranges = RangesOf(options, after.schema());
  const EncodeOptions encode = {
      .codec = attempt.codec, .threads = options.threads, .progress = progress};
  EncodedPart part;
  if (!before) {
    PULSE_ASSIGN_OR_RETURN(part.digests, DigestRanges(after, ranges, encode));
    return part;
  }
  PULSE_ASSIGN_OR_RETURN(part.delta, EncodeDelta(kernels, *before, after, ranges,
                                                 MakeSpool(fs, options, attempt), encode));
  part.digests = part.delta->digests;
  return part;
}

StatusOr<std::string> PutAndVerify(Store& store, const std::string& key, const ByteSource& source,
                                   bool read_back) {
  PULSE_ASSIGN_OR_RETURN(std::string sha256, Sha256Of(source));
  // No condition is needed: the attempt's nonce is in the key, so nobody else writes there.
  const Status put = store.Put(key, source, PutCondition::None()).status();
  const bool may_have_happened = absl::IsUnavailable(put) || absl::IsDeadlineExceeded(put);
  if (!put.ok() && !may_have_happened) return put;
  const Status stored = CheckStored(store, key, source.size(), sha256, read_back || !put.ok());
  if (!stored.ok()) return put.ok() ? stored : put;
  return sha256;
}

StatusOr<std::vector<ManifestObject>> UploadPart(Store& store, const PartOptions& options,
                                                 const Attempt& attempt, const EncodedPart& part,
                                                 const CombinedDigests& digests,
                                                 const ViewSource& after, bool anchor) {
  std::vector<ManifestObject> objects;
  const auto put = [&](PayloadRole role, const ByteSource& source) -> Status {
    ManifestObject object = {role, options.part, source.size(), ""};
    PULSE_ASSIGN_OR_RETURN(object.sha256,
                           PutAndVerify(store, ObjectKey(options.run, attempt.id, object.Name()),
                                        source, options.read_back));
    objects.push_back(std::move(object));
    return OkStatus();
  };
  if (part.delta) {
    PULSE_ASSIGN_OR_RETURN(const auto file,
                           MakeDeltaFile(after.schema(), *part.delta,
                                         InfoOf(options, attempt, PayloadRole::kDelta, digests)));
    PULSE_RETURN_IF_ERROR(put(PayloadRole::kDelta, *file));
  }
  if (anchor) {
    PULSE_ASSIGN_OR_RETURN(const auto file,
                           MakeAnchorFile(after, RangesOf(options, after.schema()),
                                          InfoOf(options, attempt, PayloadRole::kAnchor, digests)));
    PULSE_RETURN_IF_ERROR(put(PayloadRole::kAnchor, *file));
  }
  return objects;
}

}  // namespace pulse
