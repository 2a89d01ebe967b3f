#include "sync/foreign/rebuild.h"

#include <algorithm>

#include "sync/checkpoint.h"

namespace pulse {
namespace {

Status CheckBase(const ForeignVersion& version, const ForeignBase& base) {
  if (version.full()) return OkStatus();
  if (base.view == nullptr || !base.number || *base.number + 1 != version.number()) {
    return FailedPrecondition(
        "version {} changes version {}, which is not here: start from a full version, or give the "
        "model that it starts from (--base)",
        version.number(), version.number() - 1);
  }
  if (base.digest && version.base_digest() && *base.digest != *version.base_digest()) {
    return FailedPrecondition("version {} starts from a model with the digest {}, this one has {}",
                              version.number(), version.base_digest()->Hex(), base.digest->Hex());
  }
  return OkStatus();
}

// Makes the bytes of a version, tensor by tensor.
class Maker {
 public:
  Maker(const ForeignVersion& version, const ForeignBase& base,
        const ForeignRebuildOptions& options)
      : version_(version), base_(base), options_(options) {}

  // Gives all of a tensor to `sink`, in cells.
  template <typename Sink>
  Status Make(const TensorSpec& spec, const Sink& sink) {
    PULSE_ASSIGN_OR_RETURN(const auto patch, version_.Patch(spec));
    const ModelSchema* schema = base_.view != nullptr ? &base_.view->schema() : nullptr;
    const auto in_base = schema ? schema->Find(spec.name) : StatusOr<size_t>(NotFound("no base"));
    const bool take_base = patch == nullptr || !version_.full();
    if (take_base && !in_base.ok()) {
      return Internal("tensor \"{}\" comes from nowhere", spec.name);
    }
    for (uint64_t begin = 0; begin < spec.bytes(); begin += kCellBytes) {
      const uint64_t end = std::min(spec.bytes(), begin + kCellBytes);
      ByteView made;
      if (take_base) {
        PULSE_ASSIGN_OR_RETURN(made, base_.view->Read({*in_base, begin, end}, scratch_));
      }
      if (patch != nullptr) {
        cell_.resize(end - begin);
        if (take_base) std::ranges::copy(made, cell_.begin());
        PULSE_RETURN_IF_ERROR(patch->Apply(cell_));
        made = cell_;
      }
      PULSE_RETURN_IF_ERROR(sink(made));
      done_ += made.size();
      if (options_.on_bytes) PULSE_RETURN_IF_ERROR(options_.on_bytes(done_));
    }
    return patch != nullptr ? patch->Finish() : OkStatus();
  }

 private:
  const ForeignVersion& version_;
  const ForeignBase& base_;
  const ForeignRebuildOptions& options_;
  Bytes cell_, scratch_;
  uint64_t done_ = 0;
};

Status CheckDigest(const ForeignVersion& version, const ForeignRebuildOptions& options,
                   const Digest& rebuilt) {
  for (const auto& expected : {version.target_digest(), options.expected}) {
    if (expected && *expected != rebuilt) {
      return DataLoss("version {} was rebuilt with the digest {}, but its writer had {}",
                      version.number(), rebuilt.Hex(), expected->Hex());
    }
  }
  return OkStatus();
}

StatusOr<ModelSchema> SchemaOf(const ForeignVersion& version, const ForeignBase& base) {
  PULSE_RETURN_IF_ERROR(CheckBase(version, base));
  return version.Schema(base.view != nullptr ? &base.view->schema() : nullptr);
}

}  // namespace

StatusOr<ViewDigests> DigestForeignVersion(const ForeignVersion& version, const ForeignBase& base,
                                           const ForeignRebuildOptions& options) {
  PULSE_ASSIGN_OR_RETURN(const ModelSchema schema, SchemaOf(version, base));
  Maker maker(version, base, options);
  ViewDigests digests;
  for (const TensorSpec& spec : schema.tensors()) {
    TensorDigester digester;
    PULSE_RETURN_IF_ERROR(maker.Make(spec, [&](ByteView bytes) {
      digester.Update(bytes);
      return OkStatus();
    }));
    digests.tensors.push_back(digester.Finish());
  }
  digests.view = ViewDigest(schema, digests.tensors);
  PULSE_RETURN_IF_ERROR(CheckDigest(version, options, digests.view));
  return digests;
}

StatusOr<ViewDigests> RebuildForeignVersion(Filesystem& fs, const std::string& path,
                                            const ForeignVersion& version, const ForeignBase& base,
                                            const ForeignRebuildOptions& options) {
  PULSE_ASSIGN_OR_RETURN(const ModelSchema schema, SchemaOf(version, base));
  PULSE_ASSIGN_OR_RETURN(const auto writer,
                         CheckpointWriter::Create(fs, path, schema, options.metadata));
  Maker maker(version, base, options);
  for (const size_t i : writer->order()) {
    PULSE_RETURN_IF_ERROR(
        maker.Make(schema.tensors()[i], [&](ByteView bytes) { return writer->Append(bytes); }));
  }
  PULSE_ASSIGN_OR_RETURN(ViewDigests digests, writer->Finish());
  PULSE_RETURN_IF_ERROR(CheckDigest(version, options, digests.view));
  PULSE_RETURN_IF_ERROR(writer->Commit());
  return digests;
}

}  // namespace pulse
