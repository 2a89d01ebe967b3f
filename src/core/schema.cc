#include "core/schema.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace pulse {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;  // so that sums of two sizes never overflow

Status CheckName(std::string_view name) {
  if (name.empty()) return InvalidArgument("a tensor has an empty name");
  if (name == "__metadata__") return InvalidArgument("\"__metadata__\" can't be a tensor's name");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return InvalidArgument("a tensor's name has a control character (code {})",
                             static_cast<int>(static_cast<unsigned char>(c)));
    }
  }
  return OkStatus();
}

// An empty tensor may have any other extents, so the product is checked over the non-zero ones.
Status CheckSize(const TensorSpec& spec) {
  uint64_t total = SizeOf(spec.dtype);
  for (const uint64_t extent : spec.shape) {
    if (extent != 0 && total > kMaxBytes / extent) {
      return InvalidArgument("tensor \"{}\": shape [{}] is too large", spec.name,
                             fmt::join(spec.shape, ","));
    }
    total *= std::max<uint64_t>(extent, 1);
  }
  return OkStatus();
}

std::string Describe(const TensorSpec& spec) {
  return fmt::format("{} [{}]", NameOf(spec.dtype), fmt::join(spec.shape, ","));
}

}  // namespace

uint64_t TensorSpec::elements() const {
  uint64_t product = 1;
  for (const uint64_t extent : shape) product *= extent;
  return product;
}

StatusOr<ModelSchema> ModelSchema::Make(std::vector<TensorSpec> tensors,
                                        std::map<std::string, std::string> aliases) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; });
  ModelSchema schema;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i];
    PULSE_RETURN_IF_ERROR(CheckName(spec.name));
    PULSE_RETURN_IF_ERROR(CheckSize(spec));
    if (i > 0 && tensors[i - 1].name == spec.name) {
      return InvalidArgument("tensor \"{}\" appears twice", spec.name);
    }
    if (spec.bytes() > kMaxBytes - schema.bytes_) {
      return InvalidArgument("the tensors together are too large at \"{}\"", spec.name);
    }
    schema.bytes_ += spec.bytes();
    schema.offsets_.push_back(schema.offsets_.back() + spec.elements());
  }
  schema.tensors_ = std::move(tensors);
  for (const auto& [alias, target] : aliases) {
    PULSE_RETURN_IF_ERROR(CheckName(alias));
    if (schema.Find(alias).ok()) {
      return InvalidArgument("\"{}\" is both a tensor and an alias", alias);
    }
    if (!schema.Find(target).ok()) {
      return InvalidArgument("alias \"{}\" names \"{}\", which is no tensor", alias, target);
    }
  }
  schema.aliases_ = std::move(aliases);
  return schema;
}

StatusOr<size_t> ModelSchema::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorSpec& spec, std::string_view wanted) { return spec.name < wanted; });
  if (at == tensors_.end() || at->name != name) return NotFound("no tensor \"{}\"", name);
  return static_cast<size_t>(at - tensors_.begin());
}

Status RequireSameSchema(const ModelSchema& a, std::string_view left, const ModelSchema& b,
                         std::string_view right) {
  for (const TensorSpec& spec : a.tensors()) {
    const auto found = b.Find(spec.name);
    if (!found.ok()) {
      return FailedPrecondition("tensor \"{}\" is in {} but not in {}", spec.name, left, right);
    }
    const TensorSpec& other = b.tensors()[*found];
    if (spec != other) {
      return FailedPrecondition("tensor \"{}\" is {} in {} but {} in {}", spec.name, Describe(spec),
                                left, Describe(other), right);
    }
  }
  for (const TensorSpec& spec : b.tensors()) {
    if (!a.Find(spec.name).ok()) {
      return FailedPrecondition("tensor \"{}\" is in {} but not in {}", spec.name, right, left);
    }
  }
  if (a.aliases() != b.aliases()) {
    return FailedPrecondition("{} and {} tie different tensors together", left, right);
  }
  return OkStatus();
}

}  // namespace pulse
