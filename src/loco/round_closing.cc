#include "loco/round_closing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>

namespace pulse::loco {
namespace {

// 16 theta | 16 shared | 8 sent | 8 received | 8 contribution | 6 * 8 seconds | u32 metrics | per
// metric: u32 length, name, f64. Metrics ascend by name.
constexpr size_t kFixedBytes = 2 * 16 + 3 * 8 + 6 * 8 + 4;

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

// which: the place of the first difference among the digests of all arrays.
Status DescribeMismatch(const ModelSchema& masters, std::span<const SharedArray> arrays,
                        size_t which, std::span<const Digest> of_ranks, size_t more) {
  const size_t tensors = masters.tensors().size();
  const std::vector<size_t> minority = Minority(of_ranks);
  const bool all = minority.size() == of_ranks.size();
  return DataLoss(
      "{} differs between ranks: tensor \"{}\"{} on rank {}{}; nothing of this round was "
      "committed: "
      "restart from the last checkpoint, and suspect the hardware of that rank",
      arrays[which / tensors].name, masters.tensors()[which % tensors].name,
      more > 0 ? fmt::format(" (and {} more)", more) : "", fmt::join(minority, ", "),
      all ? " (all of them: no majority agrees)" : "");
}

Status ExplainMismatch(Communicator& communicator, const ModelSchema& masters,
                       std::span<const SharedArray> arrays, std::span<const Digest> digests,
                       Deadline deadline) {
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(AsBytes(digests), rows, deadline));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != digests.size_bytes()) {
      return DataLoss("rank {} sent {} bytes of tensor digests, not {}", r, rows[r].size(),
                      digests.size_bytes());
    }
  }
  std::vector<size_t> differing;
  std::vector<Digest> of_first(rows.size()), of_ranks(rows.size());
  for (size_t i = 0; i < digests.size(); ++i) {
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(rows[r].data() + i * sizeof(Digest), sizeof(Digest), of_ranks[r].bytes.begin());
    }
    if (std::count(of_ranks.begin(), of_ranks.end(), of_ranks[0]) ==
        static_cast<ptrdiff_t>(of_ranks.size())) {
      continue;
    }
    if (differing.empty()) of_first = of_ranks;
    differing.push_back(i);
  }
  if (differing.empty()) {
    return DataLoss("digests of theta differ, but of no tensor: a message was corrupted");
  }
  // Other tensors of the same array; that a difference spreads to other arrays tells nothing new.
  const size_t tensors = masters.tensors().size();
  const auto more = std::count_if(differing.begin() + 1, differing.end(), [&](size_t i) {
    return i / tensors == differing.front() / tensors;
  });
  return DescribeMismatch(masters, arrays, differing.front(), of_first, static_cast<size_t>(more));
}

}  // namespace

Bytes EncodeRankClosing(const RankClosing& closing) {
  Bytes out(closing.theta.bytes.begin(), closing.theta.bytes.end());
  out.insert(out.end(), closing.shared.bytes.begin(), closing.shared.bytes.end());
  AppendLittle(closing.traffic.sent, out);
  AppendLittle(closing.traffic.received, out);
  AppendLittle(closing.traffic.contribution, out);
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
  std::copy_n(bytes.data() + 16, closing.shared.bytes.size(), closing.shared.bytes.begin());
  closing.traffic.sent = LoadLittle<uint64_t>(bytes.data() + 32);
  closing.traffic.received = LoadLittle<uint64_t>(bytes.data() + 40);
  closing.traffic.contribution = LoadLittle<uint64_t>(bytes.data() + 48);
  for (size_t i = 0; i < kPhases.size(); ++i) {
    closing.seconds.*kPhases[i] = LoadDouble(bytes.data() + 56 + 8 * i);
  }
  PULSE_ASSIGN_OR_RETURN(closing.metrics,
                         DecodeMetrics(LoadLittle<uint32_t>(bytes.data() + kFixedBytes - 4),
                                       bytes.subspan(kFixedBytes)));
  return closing;
}

std::vector<Digest> DigestsOf(const ModelSchema& masters, std::span<const SharedArray> arrays) {
  std::vector<Digest> digests;
  for (const SharedArray& array : arrays) {
    for (const ByteView tensor : SplitContiguous(masters, AsBytes(array.values)).tensors) {
      digests.push_back(TensorDigest(tensor));
    }
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
                                              std::span<const SharedArray> arrays,
                                              std::span<const Digest> digests, RankClosing mine,
                                              Deadline deadline) {
  mine.theta = ViewDigest(masters, digests.first(masters.tensors().size()));
  mine.shared = DigestOf(AsBytes(digests));
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(EncodeRankClosing(mine), rows, deadline));
  std::vector<RankClosing> closings;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto closing = DecodeRankClosing(rows[r]);
    if (!closing.ok()) return Annotate(closing.status(), fmt::format("closing of rank {}", r));
    closings.push_back(*std::move(closing));
  }
  for (const RankClosing& closing : closings) {
    if (closing.shared == closings.front().shared && closing.theta == closings.front().theta) {
      continue;
    }
    return ExplainMismatch(communicator, masters, arrays, digests, deadline);
  }
  return closings;
}

void SumClosings(std::span<const RankClosing> closings, RoundReport& report) {
  for (const RankClosing& closing : closings) {
    for (const auto& [name, value] : closing.metrics) report.metrics[name] += value;
    report.traffic_of_all.sent += closing.traffic.sent;
    report.traffic_of_all.received += closing.traffic.received;
    report.traffic_of_all.contribution += closing.traffic.contribution;
    report.most_received = std::max(report.most_received, closing.traffic.received);
    for (const auto phase : kPhases) {
      report.slowest.*phase = std::max(report.slowest.*phase, closing.seconds.*phase);
    }
  }
}

}  // namespace pulse::loco
