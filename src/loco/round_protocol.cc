#include "loco/round_protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "loco/rank_name.h"

namespace pulse::loco {
namespace {

// Offset  bytes
//      0      4  magic "PLR1"
//      4      1  phase
//      5      1  status code (absl's canonical numbers)
//      6      1  bit 0: finite, bit 1: stop requested, bit 2: busy
//      7      1  0
//      8      8  round
//     16      8  step
//     24     16  fingerprint
//     40      8  entries
//     48      8  payload bytes
//     56      8  what is durable of a checkpoint on this rank: Checkpointer::ready()
constexpr uint32_t kMagic = 0x31524C50;
constexpr uint8_t kFinite = 1, kStopRequested = 2, kBusy = 4;
constexpr uint8_t kLastCode = static_cast<uint8_t>(absl::StatusCode::kUnauthenticated);

constexpr size_t kMessageBytes = 2000;  // of an error, as others report it

std::string_view NameOf(Phase phase) {
  constexpr std::string_view kNames[] = {"the start", "the exchange", "the end", "a checkpoint",
                                         "the beginning"};
  return kNames[static_cast<size_t>(phase)];
}

std::string Where(const RankStatus& at) {
  return fmt::format("{} of round {}, step {}", NameOf(at.phase), at.round, at.step);
}

bool SamePlace(const RankStatus& a, const RankStatus& b) {
  return a.phase == b.phase && a.round == b.round && a.step == b.step;
}

// Ranks at another place than most, each with its place.
Status RequireSamePlace(const Communicator& communicator, std::span<const RankStatus> table) {
  const auto votes = [&](const RankStatus& row) {
    return std::count_if(table.begin(), table.end(),
                         [&](const RankStatus& other) { return SamePlace(row, other); });
  };
  const auto most = std::max_element(
      table.begin(), table.end(),
      [&](const RankStatus& a, const RankStatus& b) { return votes(a) < votes(b); });
  std::vector<std::string> astray;
  for (size_t r = 0; r < table.size(); ++r) {
    if (!SamePlace(table[r], *most))
      astray.push_back(fmt::format("{} is at {}", NameRank(communicator, r), Where(table[r])));
  }
  if (astray.empty()) return OkStatus();
  return FailedPrecondition("{}, while rank {} is at {}; restart all ranks from one checkpoint",
                            fmt::join(astray, ", "), most - table.begin(), Where(*most));
}

StatusOr<std::vector<RankStatus>> ExchangeTable(Communicator& communicator, const RankStatus& mine,
                                                Deadline deadline) {
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(EncodeRankStatus(mine), rows, deadline));
  std::vector<RankStatus> table;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto row = DecodeRankStatus(rows[r]);
    if (!row.ok()) return Annotate(row.status(), fmt::format("status of rank {}", r));
    table.push_back(*row);
  }
  return table;
}

// Ranks whose text is another than that of the most; of two as frequent, than the first.
std::vector<size_t> UnlikeMost(std::span<const std::string_view> texts) {
  std::map<std::string_view, size_t> votes;
  for (const std::string_view text : texts) ++votes[text];
  const auto most = std::max_element(texts.begin(), texts.end(), [&](const auto& a, const auto& b) {
    return votes[a] < votes[b];
  });
  std::vector<size_t> others;
  for (size_t r = 0; r < texts.size(); ++r) {
    if (texts[r] != *most) others.push_back(r);
  }
  return others;
}

Status ExplainFingerprints(Communicator& communicator, const Fingerprint& fingerprint,
                           Deadline deadline) {
  std::vector<Bytes> texts;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(AsBytes(fingerprint.text()), texts, deadline));
  std::vector<std::string_view> views;
  for (const Bytes& text : texts) views.push_back(AsText(text));
  const Status difference = ExplainDifference(views);
  if (!difference.ok()) {
    return MakeError(difference.code(), "{}; unlike most: {}", ToStd(difference.message()),
                     NameRanks(communicator, UnlikeMost(views)));
  }
  return DataLoss("configuration fingerprints differ, their texts do not: a status was corrupted");
}

// Every rank hands round its error; each returns its own, or the first one's under its name.
Status ShareErrors(Communicator& communicator, const Status& local,
                   const std::vector<RankStatus>& table, Deadline deadline) {
  const std::string mine(ToStd(local.message()).substr(0, kMessageBytes));
  std::vector<Bytes> messages;
  PULSE_RETURN_IF_ERROR(communicator.AllGather(AsBytes(mine), messages, deadline));
  if (!local.ok()) return local;
  for (size_t r = 0; r < table.size(); ++r) {
    if (table[r].code == absl::StatusCode::kOk) continue;
    return MakeError(table[r].code, "{} failed: {}", NameRank(communicator, r),
                     AsText(messages[r]).substr(0, kMessageBytes));
  }
  return DataLoss("a rank failed and no row of the table says which");
}

}  // namespace

Bytes EncodeRankStatus(const RankStatus& status) {
  Bytes out;
  out.reserve(kRankStatusBytes);
  AppendLittle(kMagic, out);
  AppendLittle(static_cast<uint8_t>(status.phase), out);
  AppendLittle(static_cast<uint8_t>(status.code), out);
  AppendLittle(static_cast<uint8_t>((status.finite ? kFinite : 0) |
                                    (status.stop_requested ? kStopRequested : 0) |
                                    (status.busy ? kBusy : 0)),
               out);
  AppendLittle(uint8_t{0}, out);
  AppendLittle(status.round, out);
  AppendLittle(status.step, out);
  out.insert(out.end(), status.fingerprint.bytes.begin(), status.fingerprint.bytes.end());
  AppendLittle(status.entries, out);
  AppendLittle(status.payload_bytes, out);
  AppendLittle(status.checkpoint, out);
  return out;
}

StatusOr<RankStatus> DecodeRankStatus(ByteView bytes) {
  if (bytes.size() != kRankStatusBytes) {
    return DataLoss("a rank's status has {} bytes, not {}: do all ranks run the same build?",
                    bytes.size(), kRankStatusBytes);
  }
  const uint8_t* at = bytes.data();
  if (LoadLittle<uint32_t>(at) != kMagic) {
    return DataLoss(
        "a rank's status starts with {:#x}, not {:#x}: do all ranks run the same build?",
        LoadLittle<uint32_t>(at), kMagic);
  }
  if (at[4] > static_cast<uint8_t>(Phase::kBeginning) || at[5] > kLastCode ||
      at[6] > (kFinite | kStopRequested | kBusy) || at[7] != 0) {
    return DataLoss("a rank's status is corrupt");
  }
  RankStatus status;
  status.phase = static_cast<Phase>(at[4]);
  status.code = static_cast<absl::StatusCode>(at[5]);
  status.finite = (at[6] & kFinite) != 0;
  status.stop_requested = (at[6] & kStopRequested) != 0;
  status.busy = (at[6] & kBusy) != 0;
  status.round = LoadLittle<uint64_t>(at + 8);
  status.step = LoadLittle<uint64_t>(at + 16);
  std::copy_n(at + 24, status.fingerprint.bytes.size(), status.fingerprint.bytes.begin());
  status.entries = LoadLittle<uint64_t>(at + 40);
  status.payload_bytes = LoadLittle<uint64_t>(at + 48);
  status.checkpoint = LoadLittle<uint64_t>(at + 56);
  return status;
}

StatusOr<Decision> Decide(const Communicator& communicator, std::span<const RankStatus> table,
                          OnNonFinite on_non_finite, uint32_t shards) {
  PULSE_RETURN_IF_ERROR(RequireSamePlace(communicator, table));
  Decision decision;
  std::vector<size_t> dropped, ranks_to_blame;
  for (const RankStatus& row : table) decision.stop |= row.stop_requested;
  for (size_t k = 0; k < table.size() / shards; ++k) {
    const auto ranks = table.subspan(k * shards, shards);
    const bool finite =
        std::all_of(ranks.begin(), ranks.end(), [](const RankStatus& row) { return row.finite; });
    decision.contributes.push_back(finite ? 1 : 0);
    decision.contributors += finite ? 1 : 0;
    if (!finite) dropped.push_back(k);
  }
  for (size_t r = 0; r < table.size(); ++r) {
    if (!table[r].finite) ranks_to_blame.push_back(r);
  }
  if (!dropped.empty() && on_non_finite == OnNonFinite::kStop) {
    return InvalidArgument(
        "trainer {} has non-finite gradients or weights on {}; lower the learning rate, or set "
        "on_non_finite to drop",
        fmt::join(dropped, ", "), NameRanks(communicator, ranks_to_blame));
  }
  return decision;
}

StatusOr<Meeting> Meet(Communicator& communicator, RankStatus mine, const Status& local,
                       const Fingerprint& fingerprint, OnNonFinite on_non_finite, Deadline deadline,
                       uint32_t shards) {
  mine.fingerprint = fingerprint.digest();
  mine.code = local.code();
  PULSE_ASSIGN_OR_RETURN(auto table, ExchangeTable(communicator, mine, deadline));
  const auto differs = [&](const RankStatus& row) {
    return row.fingerprint != table.front().fingerprint;
  };
  if (std::any_of(table.begin(), table.end(), differs)) {
    return ExplainFingerprints(communicator, fingerprint, deadline);
  }
  const auto failed = [](const RankStatus& row) { return row.code != absl::StatusCode::kOk; };
  if (std::any_of(table.begin(), table.end(), failed)) {
    return ShareErrors(communicator, local, table, deadline);
  }
  const auto busy = [](const RankStatus& row) { return row.busy; };
  if (std::any_of(table.begin(), table.end(), busy)) return Meeting{std::move(table), {}, true};
  PULSE_ASSIGN_OR_RETURN(Decision decision, Decide(communicator, table, on_non_finite, shards));
  return Meeting{std::move(table), std::move(decision)};
}

}  // namespace pulse::loco
