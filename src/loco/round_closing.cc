#include "loco/round_closing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>

#include "loco/rank_name.h"

namespace pulse::loco {
namespace {

// 16 theta | 16 shared | 8 sent | 8 received | 8 contribution | 8 view changes | 6 * 8 seconds |
// u8 theta is usable | u32 metrics | per metric: u32 length, name, f64. Metrics ascend by name.
constexpr size_t kFixedBytes = 2 * 16 + 4 * 8 + 6 * 8 + 1 + 4;

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

// Indices outside the majority; all, if no digest is held by more than half.
std::vector<size_t> Minority(std::span<const Digest> digests) {
  std::map<Digest, size_t> votes;
  for (const Digest& digest : digests) ++votes[digest];
  std::vector<size_t> minority;
  for (size_t i = 0; i < digests.size(); ++i) {
    if (votes[digests[i]] * 2 <= digests.size()) minority.push_back(i);
  }
  return minority;
}

// One digest as all ranks of `ranks` have it, who should have the same.
struct Compared {
  size_t which = 0;  // among the digests of all arrays
  std::vector<size_t> ranks;
  std::vector<Digest> digests;

  bool differs() const {
    return std::any_of(digests.begin(), digests.end(),
                       [&](const Digest& digest) { return digest != digests.front(); });
  }
};

// first: the first difference.
Status DescribeMismatch(const Communicator& communicator, const ModelSchema& masters,
                        std::span<const SharedArray> arrays, const Compared& first, size_t more) {
  const size_t tensors = masters.tensors().size();
  std::vector<size_t> minority;
  for (const size_t i : Minority(first.digests)) minority.push_back(first.ranks[i]);
  const bool all = minority.size() == first.ranks.size();
  return DataLoss(
      "{} differs between ranks: tensor \"{}\"{} on {}{}; nothing of this round was "
      "committed: restart from the last checkpoint, and suspect the hardware of that rank",
      arrays[first.which / tensors].name, masters.tensors()[first.which % tensors].name,
      more > 0 ? fmt::format(" (and {} more)", more) : "", NameRanks(communicator, minority),
      all ? " (all of them: no majority agrees)" : "");
}

Status ExplainMismatch(Communicator& communicator, const ModelSchema& masters,
                       std::span<const SharedArray> arrays, std::span<const Digest> digests,
                       Deadline deadline, uint32_t shards) {
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(AsBytes(digests), rows, deadline));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != digests.size_bytes()) {
      return DataLoss("rank {} sent {} bytes of tensor digests, not {}", r, rows[r].size(),
                      digests.size_bytes());
    }
  }
  const size_t tensors = masters.tensors().size();
  std::vector<Compared> differing;
  for (size_t i = 0; i < digests.size(); ++i) {
    for (size_t shard = 0; shard < shards; ++shard) {
      Compared compared{.which = i, .ranks = {}, .digests = {}};
      for (size_t r = shard; r < rows.size(); r += shards) {
        compared.ranks.push_back(r);
        std::copy_n(rows[r].data() + i * sizeof(Digest), sizeof(Digest),
                    compared.digests.emplace_back().bytes.begin());
      }
      if (compared.differs()) differing.push_back(std::move(compared));
    }
  }
  if (differing.empty()) {
    return DataLoss("digests of theta differ, but of no tensor: a message was corrupted");
  }
  // Other tensors of the same array; that a difference spreads to other arrays tells nothing new.
  const auto more = std::count_if(differing.begin() + 1, differing.end(), [&](const Compared& c) {
    return c.which / tensors == differing.front().which / tensors;
  });
  return DescribeMismatch(communicator, masters, arrays, differing.front(),
                          static_cast<size_t>(more));
}

}  // namespace

Bytes EncodeRankClosing(const RankClosing& closing) {
  Bytes out(closing.theta.bytes.begin(), closing.theta.bytes.end());
  out.insert(out.end(), closing.shared.bytes.begin(), closing.shared.bytes.end());
  AppendLittle(closing.traffic.sent, out);
  AppendLittle(closing.traffic.received, out);
  AppendLittle(closing.traffic.contribution, out);
  AppendLittle(closing.view_changes, out);
  for (const auto phase : kPhases) AppendDouble(closing.seconds.*phase, out);
  out.push_back(closing.theta_is_usable ? 1 : 0);
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
  closing.view_changes = LoadLittle<uint64_t>(bytes.data() + 56);
  for (size_t i = 0; i < kPhases.size(); ++i) {
    closing.seconds.*kPhases[i] = LoadDouble(bytes.data() + 64 + 8 * i);
  }
  const uint8_t usable = bytes[kFixedBytes - 5];
  if (usable > 1) return DataLoss("a rank's figures are corrupt");
  closing.theta_is_usable = usable == 1;
  PULSE_ASSIGN_OR_RETURN(closing.metrics,
                         DecodeMetrics(LoadLittle<uint32_t>(bytes.data() + kFixedBytes - 4),
                                       bytes.subspan(kFixedBytes)));
  return closing;
}

std::vector<SharedArray> SharedArraysOf(Mode mode, const State& state, uint64_t begin) {
  if (mode == Mode::kDdp) {
    return {{"theta", state.theta, begin},
            {"first moment", state.m, begin},
            {"second moment", state.v, begin}};
  }
  return {{"theta", state.theta, begin}, {"outer momentum", state.outer_momentum, begin}};
}

ArrayDigests DigestsOf(const ModelSchema& masters, const SharedArray& array, Workers& workers) {
  ArrayDigests digests;
  const uint64_t end = array.begin + array.values.size();
  for (size_t i = 0; i < masters.tensors().size(); ++i) {
    const uint64_t from = std::clamp(masters.offset(i), array.begin, end);
    const uint64_t to = std::clamp(masters.offset(i + 1), array.begin, end);
    const auto chunks =
        ChunkDigests(AsBytes(array.values.subspan(from - array.begin, to - from)), workers);
    digests.tensors.push_back(CombineChunks(chunks));
    digests.chunks.insert(digests.chunks.end(), chunks.begin(), chunks.end());
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
                                              Deadline deadline, uint32_t shards) {
  mine.shared = DigestOf(AsBytes(digests));  // theta's included
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(EncodeRankClosing(mine), rows, deadline));
  std::vector<RankClosing> closings;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto closing = DecodeRankClosing(rows[r]);
    if (!closing.ok()) return Annotate(closing.status(), fmt::format("closing of rank {}", r));
    closings.push_back(*std::move(closing));
  }
  for (size_t r = 0; r < closings.size(); ++r) {
    if (closings[r].theta == closings.front().theta &&
        closings[r].shared == closings[r % shards].shared) {
      continue;
    }
    return ExplainMismatch(communicator, masters, arrays, digests, deadline, shards);
  }
  return closings;
}

void SumClosings(std::span<const RankClosing> closings, uint32_t shards, RoundReport& report) {
  for (const RankClosing& closing : closings.first(shards)) {
    report.view_changes += closing.view_changes;
  }
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
