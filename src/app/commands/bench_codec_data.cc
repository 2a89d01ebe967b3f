#include "app/commands/bench_codec_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/rng.h"
#include "sync/checkpoint.h"

namespace pulse {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 15;
constexpr uint64_t kRow = 4096;

void AppendBF16(const Checkpoint& checkpoint, std::vector<uint16_t>& words) {
  const ModelView view = checkpoint.view();
  for (size_t i = 0; i < checkpoint.schema().tensors().size(); ++i) {
    if (checkpoint.schema().tensors()[i].dtype != DType::kBF16) continue;
    const ByteView bytes = view.tensors[i];
    const size_t at = words.size();
    words.resize(at + bytes.size() / 2);
    std::memcpy(&words[at], bytes.data(), bytes.size());
  }
}

// An Adam step of learning rate `rate`.
void FillAdam(CodecData& data, float rate, bool frozen, const kernels::KernelTable& kernels) {
  std::vector<float> before(kPiece), after(kPiece);
  for (uint64_t at = 0; at < data.before.size(); at += kPiece) {
    const uint64_t n = std::min<uint64_t>(kPiece, data.before.size() - at);
    Rng rng(1, {.sample = static_cast<uint32_t>(at / kPiece)});
    for (uint64_t i = 0; i < n; ++i) {
      before[i] = rng.Normal() * 0.028f;
      const bool moves = !frozen || (at + i) / kRow % 8 == 0;
      after[i] = before[i] - (moves ? rate * 0.3f * rng.Normal() : 0.0f);
    }
    const auto part = [&](auto& array) { return std::span(array).subspan(at, n); };
    kernels.cast_to_bf16(std::span<const float>(before).first(n), part(data.before));
    kernels.cast_to_bf16(std::span<const float>(after).first(n), part(data.after));
  }
}

void FillRandom(std::vector<uint16_t>& words, uint32_t sample) {
  Rng rng(2, {.sample = sample});
  for (uint16_t& word : words) word = static_cast<uint16_t>(rng.U32());
}

}  // namespace

std::vector<std::string> CodecDataNames() {
  return {"adam-3e-6", "adam-1e-6", "adam-2.5e-7", "frozen", "all changed", "none", "random"};
}

StatusOr<CodecData> MakeCodecData(const std::string& name, uint64_t elements,
                                  const kernels::KernelTable& kernels) {
  CodecData data{name, std::vector<uint16_t>(elements), std::vector<uint16_t>(elements)};
  if (name == "adam-3e-6") {
    FillAdam(data, 3e-6f, false, kernels);
  } else if (name == "adam-1e-6") {
    FillAdam(data, 1e-6f, false, kernels);
  } else if (name == "adam-2.5e-7") {
    FillAdam(data, 2.5e-7f, false, kernels);
  } else if (name == "frozen") {
    FillAdam(data, 1e-6f, true, kernels);
  } else if (name == "all changed") {
    FillAdam(data, 0, false, kernels);
    for (uint64_t i = 0; i < elements; ++i) {
      data.after[i] = static_cast<uint16_t>(data.before[i] + (i % 3 == 0 ? 1 : 0xffff));
    }
  } else if (name == "none") {
    FillAdam(data, 0, false, kernels);
  } else if (name == "random") {
    FillRandom(data.before, 0);
    FillRandom(data.after, 1);
  } else {
    return InvalidArgument("no data named '{}'; there are {}", name,
                           fmt::join(CodecDataNames(), ", "));
  }
  AddAwkwardWords(data);
  return data;
}

void AddAwkwardWords(CodecData& data) {
  constexpr uint16_t kNaNWithPayload = 0x7fc1, kDenormal = 0x0012;
  for (uint64_t at = 0; at + 1 < data.before.size(); at += kPiece) {
    data.before[at] = data.after[at] = kNaNWithPayload;
    data.before[at + 1] = data.after[at + 1] = kDenormal;
  }
  constexpr uint64_t kRows = 64;
  for (uint64_t at = (kRows - 1) * kRow; at < data.before.size(); at += kRows * kRow) {
    const uint64_t n = std::min<uint64_t>(kRow, data.before.size() - at);
    std::copy_n(data.before.begin() + static_cast<ptrdiff_t>(at), n,
                data.after.begin() + static_cast<ptrdiff_t>(at));
  }
}

StatusOr<CodecData> LoadCodecData(Filesystem& fs, const std::vector<std::string>& pairs) {
  CodecData data{"checkpoints", {}, {}};
  for (const std::string& pair : pairs) {
    const size_t comma = pair.find(',');
    if (comma == std::string::npos) {
      return InvalidArgument("--pair {}: expected BEFORE,AFTER", pair);
    }
    PULSE_ASSIGN_OR_RETURN(const auto before, Checkpoint::Open(fs, pair.substr(0, comma)));
    PULSE_ASSIGN_OR_RETURN(const auto after, Checkpoint::Open(fs, pair.substr(comma + 1)));
    PULSE_RETURN_IF_ERROR(RequireSameSchema(before->schema(), "BEFORE", after->schema(), "AFTER"));
    AppendBF16(*before, data.before);
    AppendBF16(*after, data.after);
  }
  if (data.before.empty()) return InvalidArgument("--pair: no BF16 tensor in these checkpoints");
  return data;
}

}  // namespace pulse
