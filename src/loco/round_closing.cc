#include "loco/round_closing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>

namespace pulse::loco {
namespace {

// 16 digest | 8 sent | 8 received | 6 * 8 seconds | u32 metrics | per metric: u32 length, name,
// f64. Metrics ascend by name.
constexpr size_t kFixedBytes = 16 + 2 * 8 + 6 * 8 + 4;

using Phases = std::array<double PhaseSeconds::*, 6>;
constexpr Phases kPhases = {&PhaseSeconds::compute,  &PhaseSeconds::gate,  &PhaseSeconds::meet,
                            &PhaseSeconds::exchange, &PhaseSeconds::outer, &PhaseSeconds::digest};

void AppendDouble(double value, Bytes& out) {
  AppendLittle(std::bit_cast<uint64_t>(value), out);
}

double LoadDouble(const uint8_t* from) {
  return std::bit_cast<double>(LoadLittle<uint64_t>(from));
}

StatusOr<Metrics> DecodeMetrics(uint32_t count, ByteView bytes) {
  Metrics metrics;
  for (uint32_t i = 0; i < count; ++i) {
    const size_t length = bytes.size() < 4 ? 0 : LoadLittle<uint32_t>(bytes.data());
    if (bytes.size() < 4 + length + 8) return DataLoss("a rank's figures are cut off");
    const std::string name(AsText(bytes.subspan(4, length)));
    if (!metrics.empty() && name <= metrics.rbegin()->first) {
      return DataLoss("a rank's figures are out of order");
    }
    metrics.emplace(name, LoadDouble(bytes.data() + 4 + length));
    bytes = bytes.subspan(4 + length + 8);
  }
  if (!bytes.empty()) return DataLoss("a rank's figures have {} bytes too many", bytes.size());
  return metrics;
}

// Ranks outside the majority; all, if no digest is held by more than half.
std::vector<size_t> Minority(std::span<const Digest> digests) {
  std::map<Digest, size_t> votes;
  for (const Digest& digest : digests) ++votes[digest];
  std::vector<size_t> minority;
  for (size_t r = 0; r < digests.size(); ++r) {
    if (votes[digests[r]] * 2 <= digests.size()) minority.push_back(r);
  }
  return minority;
}

Status DescribeMismatch(const ModelSchema& masters, size_t tensor, std::span<const Digest> of_ranks,
                        size_t more) {
  const std::vector<size_t> minority = Minority(of_ranks);
  const bool all = minority.size() == of_ranks.size();
  return DataLoss(
      "theta differs between ranks: tensor \"{}\"{} on rank {}{}; nothing of this round was "
      "committed: restart from the last checkpoint, and suspect the hardware of that rank",
      masters.tensors()[tensor].name, more > 0 ? fmt::format(" (and {} more)", more) : "",
      fmt::join(minority, ", "), all ? " (all of them: no majority agrees)" : "");
}

Status ExplainMismatch(Communicator& communicator, const ModelSchema& masters,
                       std::span<const Digest> tensor_digests, Deadline deadline) {
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(AsBytes(tensor_digests), rows, deadline));
  const size_t tensors = masters.tensors().size();
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != tensors * sizeof(Digest)) {
      return DataLoss("rank {} sent {} bytes of tensor digests, not {}", r, rows[r].size(),
                      tensors * sizeof(Digest));
    }
  }
  std::vector<size_t> differing;
  std::vector<Digest> of_first(rows.size()), of_ranks(rows.size());
  for (size_t t = 0; t < tensors; ++t) {
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(rows[r].data() + t * sizeof(Digest), sizeof(Digest), of_ranks[r].bytes.begin());
    }
    if (std::count(of_ranks.begin(), of_ranks.end(), of_ranks[0]) ==
        static_cast<ptrdiff_t>(of_ranks.size())) {
      continue;
    }
    if (differing.empty()) of_first = of_ranks;
    differing.push_back(t);
  }
  if (differing.empty()) {
    return DataLoss("digests of theta differ, but of no tensor: a message was corrupted");
  }
  return DescribeMismatch(masters, differing.front(), of_first, differing.size() - 1);
}

}  // namespace

Bytes EncodeRankClosing(const RankClosing& closing) {
  Bytes out(closing.theta.bytes.begin(), closing.theta.bytes.end());
  AppendLittle(closing.traffic.sent, out);
  AppendLittle(closing.traffic.received, out);
  for (const auto phase : kPhases) AppendDouble(closing.seconds.*phase, out);
  AppendLittle(static_cast<uint32_t>(closing.metrics.size()), out);
  for (const auto& [name, value] : closing.metrics) {
    AppendLittle(static_cast<uint32_t>(name.size()), out);
    out.insert(out.end(), name.begin(), name.end());
    AppendDouble(value, out);
  }
  return out;
}

StatusOr<RankClosing> DecodeRankClosing(ByteView bytes) {
  if (bytes.size() < kFixedBytes) {
    return DataLoss("a rank's figures have {} bytes; expected at least {}", bytes.size(),
                    kFixedBytes);
  }
  RankClosing closing;
  std::copy_n(bytes.data(), closing.theta.bytes.size(), closing.theta.bytes.begin());
  closing.traffic.sent = LoadLittle<uint64_t>(bytes.data() + 16);
  closing.traffic.received = LoadLittle<uint64_t>(bytes.data() + 24);
  for (size_t i = 0; i < kPhases.size(); ++i) {
    closing.seconds.*kPhases[i] = LoadDouble(bytes.data() + 32 + 8 * i);
  }
  PULSE_ASSIGN_OR_RETURN(closing.metrics,
                         DecodeMetrics(LoadLittle<uint32_t>(bytes.data() + kFixedBytes - 4),
                                       bytes.subspan(kFixedBytes)));
  return closing;
}

std::vector<Digest> ThetaDigests(const ModelSchema& masters, std::span<const float> theta) {
  std::vector<Digest> digests;
  for (const ByteView tensor : SplitContiguous(masters, AsBytes(theta)).tensors) {
    digests.push_back(TensorDigest(tensor));
  }
  return digests;
}

StatusOr<ModelSchema> MasterSchema(const ModelSchema& schema) {
  std::vector<TensorSpec> tensors = schema.tensors();
  for (TensorSpec& spec : tensors) spec.dtype = DType::kF32;
  return ModelSchema::Make(std::move(tensors), schema.aliases());
}

StatusOr<std::vector<RankClosing>> CloseRound(Communicator& communicator,
                                              const ModelSchema& masters,
                                              std::span<const Digest> tensor_digests,
                                              RankClosing mine, Deadline deadline) {
  mine.theta = ViewDigest(masters, tensor_digests);
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(EncodeRankClosing(mine), rows, deadline));
  std::vector<RankClosing> closings;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto closing = DecodeRankClosing(rows[r]);
    if (!closing.ok()) return Annotate(closing.status(), fmt::format("closing of rank {}", r));
    closings.push_back(*std::move(closing));
  }
  for (const RankClosing& closing : closings) {
    if (closing.theta == closings.front().theta) continue;
    return ExplainMismatch(communicator, masters, tensor_digests, deadline);
  }
  return closings;
}

void SumClosings(std::span<const RankClosing> closings, RoundReport& report) {
  for (const RankClosing& closing : closings) {
    for (const auto& [name, value] : closing.metrics) report.metrics[name] += value;
    report.traffic_of_all.sent += closing.traffic.sent;
    report.traffic_of_all.received += closing.traffic.received;
    for (const auto phase : kPhases) {
      report.slowest.*phase = std::max(report.slowest.*phase, closing.seconds.*phase);
    }
  }
}

}  // namespace pulse::loco
