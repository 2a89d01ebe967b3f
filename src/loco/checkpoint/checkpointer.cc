#include "loco/checkpoint/checkpointer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace pulse::loco {
namespace {

constexpr size_t kMessageBytes = 2000;  // of an error, as others report it

// A checkpoint in sight of one rank: which, and the digest of its record's text.
struct Sighting {
  uint64_t round = 0;
  Digest record;
  friend bool operator==(const Sighting&, const Sighting&) = default;
};
constexpr size_t kSightingBytes = sizeof(uint64_t) + sizeof(Digest);

Bytes EncodeSightings(const std::vector<Sighting>& sightings) {
  Bytes out;
  for (const Sighting& s : sightings) {
    AppendLittle(s.round, out);
    out.insert(out.end(), s.record.bytes.begin(), s.record.bytes.end());
  }
  return out;
}

StatusOr<std::vector<Sighting>> DecodeSightings(ByteView bytes) {
  if (bytes.size() % kSightingBytes != 0) return DataLoss("its list of checkpoints is cut off");
  std::vector<Sighting> sightings(bytes.size() / kSightingBytes);
  for (Sighting& s : sightings) {
    s.round = LoadLittle<uint64_t>(bytes.data());
    std::copy_n(bytes.data() + sizeof(uint64_t), sizeof(Digest), s.record.bytes.begin());
    bytes = bytes.subspan(kSightingBytes);
  }
  return sightings;
}

std::string Describe(const std::vector<Sighting>& sightings) {
  if (sightings.empty()) return "none";
  std::vector<uint64_t> rounds;
  for (const Sighting& s : sightings) rounds.push_back(s.round);
  return fmt::format("round {}", fmt::join(rounds, ", "));
}

uint64_t Overlap(ElementRange a, ElementRange b) {
  const uint64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  return begin < end ? end - begin : 0;
}

// Corrupt or lost: an older checkpoint may do.
bool IsDamage(const Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

}  // namespace

CheckpointPlace PlaceOf(int rank, int ranks, uint32_t ranks_per_trainer,
                        const ModelSchema& schema) {
  const uint32_t shard = static_cast<uint32_t>(rank) % ranks_per_trainer;
  return {.id = {static_cast<uint32_t>(rank) / ranks_per_trainer, shard, ranks_per_trainer},
          .trainers = static_cast<uint32_t>(ranks) / ranks_per_trainer,
          .range = CutIntoShards(schema, ranks_per_trainer)[shard],
          .schema = &schema};
}

// What is under way. The thread writes `seal` and `status`, and then sets `done`.
struct Checkpointer::Writing {
  enum class Stage { kNone, kPart, kRecord };  // the same on all ranks
  State state;  // kept between checkpoints, so that its memory is allocated once
  Digest theta;
  Notes notes;
  int64_t started_ns = 0;
  PartSeal seal;
  Status status;
  std::atomic<bool> done = true;
  Stage stage = Stage::kNone;
  std::vector<uint64_t> old;  // checkpoints that are to be removed, or could not be
  std::thread thread;
};

Checkpointer::Checkpointer(CheckpointOptions options, CheckpointPlace place, Filesystem& fs,
                           Communicator& communicator, const Clock& clock, Logger& logger)
    : options_(std::move(options)),
      place_(place),
      fs_(fs),
      communicator_(communicator),
      clock_(clock),
      logger_(logger),
      folder_(fs, options_.folder),
      writing_(std::make_unique<Writing>()) {}

Checkpointer::~Checkpointer() {
  WaitForWriter();
}

void Checkpointer::WaitForWriter() {
  if (writing_->thread.joinable()) writing_->thread.join();
}

bool Checkpointer::pending() const {
  return writing_->stage != Writing::Stage::kNone;
}

Status Checkpointer::status() const {
  return writing_->done ? writing_->status : OkStatus();
}

uint64_t Checkpointer::ready() const {
  const Writing& w = *writing_;
  if (!pending() || !w.done || !w.status.ok()) return 0;
  return 2 * w.state.round + (w.stage == Writing::Stage::kPart ? 1 : 2);
}

void Checkpointer::Write(std::function<Status()> work) {
  Writing& w = *writing_;
  WaitForWriter();
  w.done = false;
  w.thread = std::thread([&w, work = std::move(work)] {
    w.status = Annotate(work(), fmt::format("checkpoint of round {}", w.state.round));
    w.done = true;
  });
}

Status Checkpointer::Begin(const State& state, const Digest& theta, Notes notes) {
  Writing& w = *writing_;
  WaitForWriter();
  PULSE_RETURN_IF_ERROR(w.status);
  w.state.round = state.round;
  w.state.step = state.step;
  w.state.theta = state.theta;
  w.state.m = state.m;
  w.state.v = state.v;
  w.state.residual = state.residual;
  w.state.outer_momentum = state.outer_momentum;
  w.theta = theta;
  w.notes = std::move(notes);
  w.started_ns = clock_.NowNs();
  w.stage = Writing::Stage::kPart;
  const PartHeader header = {place_.id, place_.range, state.round, state.step};
  Write([this, &w, header]() -> Status {
    PULSE_ASSIGN_OR_RETURN(w.seal, WritePart(fs_, folder_.OfRound(header.round), header, w.state));
    return OkStatus();
  });
  return OkStatus();
}

Status Checkpointer::OnTable(const std::vector<uint64_t>& ready, const Fingerprint& fingerprint,
                             Deadline deadline) {
  const auto same = [&](uint64_t other) { return other != 0 && other == ready.front(); };
  if (!std::all_of(ready.begin(), ready.end(), same)) return OkStatus();
  if (writing_->stage == Writing::Stage::kPart) return Commit(fingerprint, deadline);
  Count();
  return OkStatus();
}

// Every rank hands round a record of its own part alone; the record of all is made from them.
Status Checkpointer::Commit(const Fingerprint& fingerprint, Deadline deadline) {
  Writing& w = *writing_;
  CommitRecord record = {.round = w.state.round,
                         .trainers = 1,
                         .shards = 1,
                         .elements = place_.schema->elements(),
                         .theta = w.theta,
                         .fingerprint = fingerprint.text(),
                         .notes = w.notes,
                         .parts = {w.seal}};
  const auto text = SerializeCommit(record);
  const std::string mine = text.ok() ? *text : "";  // no rank may be alone in a collective
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator_.AllGather(AsBytes(std::string_view(mine)), rows, deadline));
  record.parts.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = ParseCommit(rows[r]);
    if (!row.ok()) return Annotate(row.status(), fmt::format("checkpoint part of rank {}", r));
    if (row->round != record.round || row->theta != record.theta || row->parts.size() != 1) {
      return DataLoss("rank {} brings a checkpoint part of round {}; expected round {}", r,
                      row->round, record.round);
    }
    if (r == 0) record.notes = row->notes;
    record.parts.push_back(row->parts.front());
  }
  record.trainers = place_.trainers;
  record.shards = place_.id.shards;
  w.stage = Writing::Stage::kRecord;
  Write([this, record = std::move(record)] { return folder_.WriteCommit(record, place_.id); });
  return OkStatus();
}

// All ranks have the newest checkpoint's record.
void Checkpointer::Count() {
  Writing& w = *writing_;
  w.stage = Writing::Stage::kNone;
  committed_.push_back(w.state.round);
  if (communicator_.rank() == 0) {
    logger_.info("checkpoint of round {} committed after {:.1f} s: this rank's part is {} bytes",
                 w.state.round, static_cast<double>(clock_.NowNs() - w.started_ns) * 1e-9,
                 w.seal.bytes);
  }
  if (committed_.size() <= options_.keep) return;
  // These alone: another rank may be writing the next one into the same folder by now.
  WaitForWriter();
  const auto first_kept = committed_.end() - static_cast<ptrdiff_t>(options_.keep);
  w.old.insert(w.old.end(), committed_.begin(), first_kept);
  committed_.erase(committed_.begin(), first_kept);
  Write([this, &w] {
    std::erase_if(w.old, [&](uint64_t round) {
      const Status removed = folder_.Remove(round, place_.id.trainer);
      if (!removed.ok()) {
        logger_.warn(
            "an old checkpoint could not be removed, and is tried again after the next: {}",
            ToStd(removed.message()));
      }
      return removed.ok();
    });
    return OkStatus();
  });
}

StatusOr<std::vector<CommitRecord>> Checkpointer::Committed() const {
  PULSE_ASSIGN_OR_RETURN(const auto rounds, folder_.Rounds());
  std::vector<CommitRecord> records;
  for (const uint64_t round : rounds) {
    auto record = folder_.ReadCommit(round);
    if (record.ok()) {
      records.push_back(*std::move(record));
    } else if (absl::IsDataLoss(record.status())) {
      logger_.warn("checkpoint of round {} does not count: {}", round,
                   ToStd(record.status().message()));
    } else if (!absl::IsNotFound(record.status())) {
      return record.status();
    }
  }
  return records;
}

Status Checkpointer::Load(const CommitRecord& record, const Fingerprint& fingerprint,
                          State& state) const {
  if (record.trainers != place_.trainers) {
    return InvalidArgument(
        "the checkpoint of round {} is of {} trainers; this job has {}: each trainer's residual, "
        "moments and data are its own, so their number can't change",
        record.round, record.trainers, place_.trainers);
  }
  PULSE_RETURN_IF_ERROR(
      ExplainChange(fmt::format("the checkpoint of round {} in {}", record.round, folder_.path()),
                    record.fingerprint, fingerprint.text()));
  PULSE_ASSIGN_OR_RETURN(const auto parts, PartsToRead(record));
  uint64_t covered = 0;
  for (const PartHeader& part : parts) {
    if (part.round != record.round) {
      return DataLoss("{} is of round {}, not {}", part.id.FileName(), part.round, record.round);
    }
    PULSE_RETURN_IF_ERROR(ReadPart(fs_, folder_.OfRound(record.round), part.id,
                                   record.part(part.id.trainer, part.id.shard), place_.range, state)
                              .status());
    covered += Overlap(part.range, place_.range);
  }
  if (covered != place_.range.length()) {
    return DataLoss("the checkpoint of round {} covers {} of {} elements", record.round, covered,
                    place_.range.length());
  }
  return OkStatus();
}

// Those of this trainer that have some of this rank's range, by their headers: how a model was cut
// is for the build to say that wrote them. The rank's own suffices, and may be the only one here.
StatusOr<std::vector<PartHeader>> Checkpointer::PartsToRead(const CommitRecord& record) const {
  const auto header_of = [&](uint32_t shard) {
    return ReadPartHeader(fs_, folder_.OfRound(record.round),
                          {place_.id.trainer, shard, record.shards},
                          record.part(place_.id.trainer, shard));
  };
  if (record.shards == place_.id.shards) {
    PULSE_ASSIGN_OR_RETURN(const PartHeader own, header_of(place_.id.shard));
    if (own.range == place_.range) return std::vector<PartHeader>{own};
  }
  std::vector<PartHeader> parts;
  for (uint32_t shard = 0; shard < record.shards; ++shard) {
    PULSE_ASSIGN_OR_RETURN(const PartHeader part, header_of(shard));
    // Who has nothing needs the round and step of some part all the same.
    const bool any = place_.range.length() == 0 && parts.empty();
    if (any || Overlap(part.range, place_.range) > 0) parts.push_back(part);
  }
  return parts;
}

StatusOr<std::optional<CommitRecord>> Checkpointer::Restore(const Fingerprint& fingerprint,
                                                            State& state, Deadline deadline) {
  auto records = Committed();
  PULSE_RETURN_IF_ERROR(AgreeOn(records.status(), deadline));
  std::vector<Sighting> mine;
  for (const CommitRecord& record : *records) {
    PULSE_ASSIGN_OR_RETURN(const std::string text, SerializeCommit(record));
    mine.push_back({record.round, DigestOf(AsBytes(std::string_view(text)))});
  }
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator_.AllGather(EncodeSightings(mine), rows, deadline));
  std::vector<Sighting> common = mine;
  std::vector<std::string> seen;
  bool any = false;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto theirs = DecodeSightings(rows[r]);
    if (!theirs.ok()) return Annotate(theirs.status(), fmt::format("rank {}", r));
    any |= !theirs->empty();
    seen.push_back(fmt::format("rank {} sees {}", r, Describe(*theirs)));
    std::erase_if(common, [&](const Sighting& s) {
      return std::find(theirs->begin(), theirs->end(), s) == theirs->end();
    });
  }
  if (any && common.empty()) {
    return NotFound("no checkpoint in {} is there for all ranks ({})", folder_.path(),
                    fmt::join(seen, "; "));
  }
  Status last;
  while (!common.empty()) {
    const auto record = std::find_if(records->begin(), records->end(), [&](const auto& candidate) {
      return candidate.round == common.back().round;
    });
    last = AgreeOn(Load(*record, fingerprint, state), deadline);
    if (last.ok()) break;
    if (!IsDamage(last)) return last;
    logger_.warn("checkpoint of round {} passed over: {}", record->round, ToStd(last.message()));
    common.pop_back();
  }
  PULSE_RETURN_IF_ERROR(last);
  committed_.clear();
  for (const Sighting& s : common) committed_.push_back(s.round);
  // Before anyone writes there again.
  PULSE_RETURN_IF_ERROR(AgreeOn(RemoveAllBut(committed_), deadline));
  if (common.empty()) return std::nullopt;
  return *std::find_if(records->begin(), records->end(), [&](const auto& candidate) {
    return candidate.round == common.back().round;
  });
}

Status Checkpointer::RequireNone(Deadline deadline) {
  const auto rounds = folder_.Rounds();
  Status none = rounds.status();
  if (rounds.ok() && !rounds->empty()) {
    none = AlreadyExists(
        "{} holds checkpoints of a run already; continue it with --resume, or set another "
        "checkpoint.folder",
        folder_.path());
  }
  return AgreeOn(none, deadline);
}

Status Checkpointer::RemoveAllBut(const std::vector<uint64_t>& kept) const {
  PULSE_ASSIGN_OR_RETURN(const auto rounds, folder_.Rounds());
  for (const uint64_t round : rounds) {
    if (std::find(kept.begin(), kept.end(), round) != kept.end()) continue;
    PULSE_RETURN_IF_ERROR(folder_.Remove(round, place_.id.trainer));
  }
  return OkStatus();
}

// Every rank's own error, or the first other rank's under its name; OK if all are.
Status Checkpointer::AgreeOn(const Status& local, Deadline deadline) {
  Bytes mine = {static_cast<uint8_t>(local.code())};
  const std::string_view text = ToStd(local.message()).substr(0, kMessageBytes);
  mine.insert(mine.end(), text.begin(), text.end());
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(communicator_.AllGather(mine, rows, deadline));
  if (!local.ok() && !IsDamage(local)) return local;
  Status worst = local;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].empty()) return DataLoss("rank {} sent no status", r);
    const auto code = static_cast<absl::StatusCode>(rows[r][0]);
    if (code == absl::StatusCode::kOk) continue;
    const Status theirs =
        MakeError(code, "rank {} on {}: {}", r, communicator_.HostOf(static_cast<int>(r)),
                  AsText(rows[r]).substr(1, kMessageBytes));
    // Damage on one rank gives way to what no other checkpoint mends.
    if (worst.ok() || (IsDamage(worst) && !IsDamage(theirs))) worst = theirs;
  }
  return worst;
}

}  // namespace pulse::loco
