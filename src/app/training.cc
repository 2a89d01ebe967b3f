#include "app/training.h"

#include <cstdlib>
#include <memory>
#include <optional>

#include "app/agree.h"
#include "app/loco_options.h"
#include "app/parts.h"
#include "app/run_publisher.h"
#include "app/site_map.h"
#include "app/training_record.h"
#include "collective/nccl/nccl_communicator.h"
#include "collective/split.h"
#include "core/shards.h"
#include "loco/device/device_arrays.h"
#include "loco/loop.h"
#include "loco/round_closing.h"
#include "sync/master_view.h"
#include "trainer/synthetic.h"

namespace pulse {
namespace {

// The parts of one rank, in the order in which they stand on each other.
struct Rank {
  RunConfig config;
  std::shared_ptr<Logger> logger;
  kernels::KernelTable kernels;
  std::unique_ptr<Trainer> trainer;
  loco::Options options;
  std::string site;
  std::unique_ptr<Communicator> trainer_group, peers;  // null where a trainer has one rank
  std::optional<Cuda> cuda;                            // none: arrays in host memory
  std::unique_ptr<DeviceTrainer> device_trainer;
  loco::DeviceArrays* device_arrays = nullptr;  // the loop's
  std::optional<NcclTable> nccl;
  std::unique_ptr<DeviceCommunicator>
      exchange;  // NCCL inside this site, MPI across; null: MPI alone
  std::unique_ptr<loco::Loop> loop;
  std::unique_ptr<loco::Checkpointer> checkpoints;  // null: none are taken
  std::unique_ptr<RunPublisher> publisher;          // the first trainer's ranks
  std::unique_ptr<loco::RoundObserver> observer;    // rank 0: its TrainingRecord
};

// Of ranks that have nothing to do between rounds: all but those of the first trainer.
class IdleObserver final : public loco::RoundObserver {
 public:
  bool ReadsTheta(uint64_t, bool) const override { return false; }
  Status OnRound(const loco::State&, const loco::RoundReport&) override { return OkStatus(); }
};

// Of the ranks that share the first trainer with rank 0, whose record asks for their shards: they
// publish their share of each version.
class ShardObserver final : public loco::RoundObserver {
 public:
  // rank: must outlive the observer. begin: where its shard does.
  ShardObserver(const Rank& rank, const Clock& clock, ModelSchema masters, uint64_t begin)
      : rank_(rank), clock_(clock), masters_(std::move(masters)), begin_(begin) {}

  bool ReadsTheta(uint64_t round, bool last) const override {
    return last || IsPublished(rank_.config, round, last);
  }
  Status OnStart(const loco::State& state) override {
    PULSE_RETURN_IF_ERROR(Serve(state));
    return Join(state);
  }
  Status OnRound(const loco::State& state, const loco::RoundReport& report) override {
    const bool last = IsLast(rank_.config, report);
    const Status joined = IsPublished(rank_.config, report.round, last) ? Join(state) : OkStatus();
    if (!last) return joined;
    const Status served = Serve(state);
    return joined.ok() ? served : joined;
  }

 private:
  Status Serve(const loco::State& state) const {
    return ServeMasters(
        MastersOf(rank_.config, rank_.trainer_group.get(), masters_, state, begin_, clock_));
  }
  Status Join(const loco::State& state) const {
    if (rank_.publisher == nullptr) return OkStatus();
    PULSE_ASSIGN_OR_RETURN(
        const MasterView view,
        MasterView::OfShard(rank_.kernels, rank_.trainer->schema(), state.theta, begin_));
    return rank_.publisher->Join(view);
  }

  const Rank& rank_;
  const Clock& clock_;
  const ModelSchema masters_;
  const uint64_t begin_;
};

void MakeCheckpointer(Rank& rank, const TrainingDeps& deps) {
  const auto& settings = rank.config.checkpoint;
  if (settings.every == 0) return;
  rank.checkpoints = std::make_unique<loco::Checkpointer>(
      loco::CheckpointOptions{.folder = settings.folder.empty()
                                            ? RunFolder{rank.config.run.dir}.Checkpoints()
                                            : settings.folder,
                              .every = settings.every,
                              .keep = settings.keep,
                              .resume = deps.resume},
      loco::PlaceOf(deps.communicator.rank(), deps.communicator.size(),
                    rank.options.ranks_per_trainer, rank.trainer->schema()),
      deps.fs, deps.communicator, deps.clock, *rank.logger);
}

Status OpenPublisher(Rank& rank, const TrainingDeps& deps) {
  if (!rank.config.publish.enabled) return OkStatus();
  PULSE_ASSIGN_OR_RETURN(
      rank.publisher,
      RunPublisher::Open({rank.config, rank.trainer->schema(), rank.trainer_group.get(), deps.fs,
                          deps.clock, rank.kernels, *rank.logger}));
  return OkStatus();
}

// Rank 0's own: nothing is written before it is known that the folder holds no other run.
Status OpenRecord(Rank& rank, const TrainingDeps& deps) {
  const RunFolder folder{rank.config.run.dir};
  if (!deps.resume) PULSE_RETURN_IF_ERROR(RequireNoRun(deps.fs, folder));
  PULSE_RETURN_IF_ERROR(deps.fs.CreateDirectories(folder.path));
  PULSE_RETURN_IF_ERROR(OpenPublisher(rank, deps));
  PULSE_ASSIGN_OR_RETURN(
      rank.observer,
      TrainingRecord::Create(
          {rank.config, deps.console, deps.fs, rank.kernels, *rank.trainer, rank.publisher.get(),
           *rank.logger,
           static_cast<uint32_t>(deps.communicator.size()) / rank.options.ranks_per_trainer,
           deps.resume, rank.trainer_group ? nullptr : rank.device_arrays,
           rank.trainer_group.get()}));
  return OkStatus();
}

// What this rank calls its site; empty where the configuration lists them.
StatusOr<std::string> SiteName(const RunConfig& config, const Communicator& communicator) {
  constexpr std::string_view kEnvironment = "env:";
  const std::string& by = config.loco.sites_by;
  if (by == "list") return std::string();
  if (!config.loco.sites.empty()) {
    return InvalidArgument("loco.sites is a list while loco.sites_by is \"{}\"; set one of them",
                           by);
  }
  if (by == "host") return communicator.HostOf(communicator.rank());
  if (!by.starts_with(kEnvironment)) {
    return InvalidArgument("loco.sites_by must be list, host or env:NAME, not \"{}\"", by);
  }
  const char* value = std::getenv(by.substr(kEnvironment.size()).c_str());
  if (value == nullptr || *value == '\0') {
    return InvalidArgument("loco.sites_by is \"{}\", and this rank has no such variable", by);
  }
  return std::string(value);
}

// The device and who computes gradients on it.
Status PrepareDevice(Rank& rank, const TrainingDeps& deps) {
  const bool wants_nccl = rank.config.loco.inside_sites == "nccl";
  if (rank.config.device == "cpu") {
    if (!wants_nccl) return OkStatus();
    return InvalidArgument("loco.inside_sites nccl needs device cuda");
  }
  PULSE_ASSIGN_OR_RETURN(rank.cuda, deps.open_cuda(RankOnHost(deps.communicator)));
  const auto* synthetic = dynamic_cast<const SyntheticTrainer*>(rank.trainer.get());
  if (synthetic == nullptr) {
    return Unimplemented(
        "trainer.kind {} computes on the CPU (its LibTorch is built without CUDA); use --device "
        "cpu, or trainer.kind synthetic",
        rank.config.trainer.kind);
  }
  rank.device_trainer =
      std::make_unique<DeviceSyntheticTrainer>(*synthetic, rank.cuda->kernels.synthetic_gradient);
  if (wants_nccl) {
    PULSE_ASSIGN_OR_RETURN(rank.nccl, deps.load_nccl());
  }
  return OkStatus();
}

// Collective: NCCL among the ranks of each site that hold the same shard, whose MPI group brings
// the id.
Status OpenInsideSites(Rank& rank, const TrainingDeps& deps) {
  if (!rank.nccl) return OkStatus();
  Communicator& peers = rank.peers ? *rank.peers : deps.communicator;
  // That sites are of as many trainers.
  PULSE_RETURN_IF_ERROR(loco::Validate(rank.options, static_cast<uint32_t>(peers.size())));
  const auto site_of = [&](int k) {
    return rank.options.sites.empty() ? 0 : rank.options.sites[static_cast<size_t>(k)];
  };
  const int shards = static_cast<int>(rank.options.ranks_per_trainer);
  std::vector<int> members, ranks;  // trainers of this site, and who holds this shard of each
  for (int k = 0; k < peers.size(); ++k) {
    if (site_of(k) != site_of(peers.rank())) continue;
    members.push_back(k);
    ranks.push_back(k * shards + deps.communicator.rank() % shards);
  }
  const Deadline deadline = Deadline::After(deps.clock, rank.options.start_deadline_ms);
  PULSE_ASSIGN_OR_RETURN(const auto bootstrap, deps.open_group(ranks));
  PULSE_ASSIGN_OR_RETURN(auto inside, OpenNcclOver(*bootstrap, rank.cuda->driver, *rank.nccl,
                                                   deps.clock, {}, deadline));
  PULSE_ASSIGN_OR_RETURN(DeviceWork work, DeviceWork::Open(rank.cuda->driver, deps.clock));
  PULSE_ASSIGN_OR_RETURN(rank.exchange, OpenDeviceSplit(std::move(inside), peers, std::move(work),
                                                        {.members = members}));
  return OkStatus();
}

// Where the loop's arrays live.
loco::MakeArrays ArraysOf(Rank& rank, const TrainingDeps& deps) {
  if (!rank.cuda) return loco::HostArrays::Make;
  return [&rank, &deps](const loco::ArraysParts& parts) -> StatusOr<std::unique_ptr<loco::Arrays>> {
    PULSE_ASSIGN_OR_RETURN(
        auto arrays,
        loco::DeviceArrays::Make(parts, {rank.cuda->driver, rank.cuda->kernels,
                                         *rank.device_trainer, deps.clock, rank.exchange.get()}));
    rank.device_arrays = arrays.get();
    return std::unique_ptr<loco::Arrays>(std::move(arrays));
  };
}

// What no other rank is needed for.
Status Prepare(Rank& rank, const TrainingDeps& deps) {
  const bool first = deps.communicator.rank() == 0;
  if (deps.resume && rank.config.checkpoint.every == 0) {
    return InvalidArgument("--resume needs checkpoints: set checkpoint.every above 0");
  }
  PULSE_ASSIGN_OR_RETURN(rank.logger, MakeLogger(rank.config.log_level,
                                                 fmt::format("rank {}", deps.communicator.rank())));
  PULSE_ASSIGN_OR_RETURN(rank.kernels, kernels::ChooseKernels(rank.config.kernels));
  // Only rank 0's trainer makes the initial weights, which may take a while.
  std::function<void(uint64_t, uint64_t)> progress;
  if (first) {
    auto line = std::make_shared<std::optional<LiveLine>>(std::in_place, deps.console);
    progress = [line](uint64_t done, uint64_t total) {
      if (*line) (*line)->Show(fmt::format("warm start: step {}/{}", done, total));
      if (done == total) line->reset();  // leaves its last state behind
    };
  }
  PULSE_ASSIGN_OR_RETURN(rank.trainer, MakeTrainer(rank.config, progress));
  PULSE_RETURN_IF_ERROR(PrepareDevice(rank, deps));
  PULSE_ASSIGN_OR_RETURN(rank.options, LocoOptions(rank.config));
  PULSE_ASSIGN_OR_RETURN(rank.site, SiteName(rank.config, deps.communicator));
  return OkStatus();
}

// Collective.
Status FindSites(Rank& rank, const TrainingDeps& deps) {
  std::vector<Bytes> rows;
  PULSE_RETURN_IF_ERROR(
      deps.communicator.AllGather(AsBytes(std::string_view(rank.site)), rows,
                                  Deadline::After(deps.clock, rank.options.deadline_ms)));
  if (rank.config.loco.sites_by == "list") return OkStatus();
  std::vector<std::string> names;
  for (const Bytes& row : rows) names.emplace_back(AsText(row));
  PULSE_ASSIGN_OR_RETURN(rank.options.sites, SitesOf(names, rank.options.ranks_per_trainer));
  return OkStatus();
}

// Collective: the communicators of each trainer's ranks, and of those that hold the same shard.
Status OpenGroups(Rank& rank, const TrainingDeps& deps) {
  const int shards = static_cast<int>(rank.options.ranks_per_trainer);
  const int ranks = deps.communicator.size(), mine = deps.communicator.rank();
  if (shards == 1) return OkStatus();
  if (ranks % shards != 0) {
    return InvalidArgument("loco.ranks_per_trainer is {}; {} ranks can't be shared out so", shards,
                           ranks);
  }
  std::vector<int> trainer, peers;
  for (int r = 0; r < ranks; ++r) {
    if (r / shards == mine / shards) trainer.push_back(r);
    if (r % shards == mine % shards) peers.push_back(r);
  }
  PULSE_ASSIGN_OR_RETURN(rank.trainer_group, deps.open_group(trainer));
  PULSE_ASSIGN_OR_RETURN(rank.peers, deps.open_group(peers));
  return OkStatus();
}

Status MakeLoop(Rank& rank, const TrainingDeps& deps) {
  PULSE_ASSIGN_OR_RETURN(
      rank.loop,
      loco::Loop::Make(
          rank.options, *rank.trainer, deps.communicator, rank.kernels, deps.clock, *rank.logger,
          {rank.trainer_group.get(),
           rank.exchange ? static_cast<Communicator*>(rank.exchange.get()) : rank.peers.get()},
          ArraysOf(rank, deps)));
  return OkStatus();
}

// Who looks at rounds.
Status Assemble(Rank& rank, const TrainingDeps& deps) {
  MakeCheckpointer(rank, deps);
  const auto mine = static_cast<size_t>(deps.communicator.rank());
  if (mine == 0) return OpenRecord(rank, deps);
  if (mine >= rank.options.ranks_per_trainer) {
    rank.observer = std::make_unique<IdleObserver>();
    return OkStatus();
  }
  PULSE_RETURN_IF_ERROR(OpenPublisher(rank, deps));
  const ModelSchema& schema = rank.trainer->schema();
  PULSE_ASSIGN_OR_RETURN(ModelSchema masters, loco::MasterSchema(schema));
  rank.observer = std::make_unique<ShardObserver>(
      rank, deps.clock, std::move(masters),
      CutIntoShards(schema, rank.options.ranks_per_trainer)[mine].begin);
  return OkStatus();
}

// Collective: fails on all ranks where one fails, or where their values differ.
Status AgreeOnStart(Communicator& communicator, const Status& local, uint32_t ranks_per_trainer,
                    Clock& clock) {
  constexpr int64_t kTimeoutMs = 300'000;  // LibTorch may load slowly on a cold disk
  StatusOr<Bytes> mine = Bytes();
  AppendLittle(ranks_per_trainer, *mine);
  if (!local.ok()) mine = local;
  PULSE_ASSIGN_OR_RETURN(const std::vector<Bytes> all,
                         Agree(communicator, mine, Deadline::After(clock, kTimeoutMs)));
  // It decides which communicators are opened next, before configurations are compared as a whole.
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      return InvalidArgument("loco.ranks_per_trainer differs between rank 0 and rank {}", rank);
    }
  }
  return OkStatus();
}

}  // namespace

Status RunTraining(const StatusOr<RunConfig>& config, const TrainingDeps& deps) {
  Rank rank;
  Status prepared = config.status();
  if (prepared.ok()) {
    rank.config = *config;
    prepared = Prepare(rank, deps);
  }
  const auto agree = [&](const Status& local) {
    return AgreeOnStart(deps.communicator, local, rank.options.ranks_per_trainer, deps.clock);
  };
  PULSE_RETURN_IF_ERROR(agree(prepared));
  PULSE_RETURN_IF_ERROR(OpenGroups(rank, deps));
  PULSE_RETURN_IF_ERROR(FindSites(rank, deps));
  PULSE_RETURN_IF_ERROR(agree(OpenInsideSites(rank, deps)));
  PULSE_RETURN_IF_ERROR(agree(MakeLoop(rank, deps)));  // before anything is written
  PULSE_RETURN_IF_ERROR(agree(Assemble(rank, deps)));
  PULSE_ASSIGN_OR_RETURN(const loco::RunEnd end, rank.loop->Run(*rank.observer, deps.stop_requested,
                                                                rank.checkpoints.get()));
  if (end == loco::RunEnd::kStopped) {
    return Cancelled("stopped on request after round {} of {}; {} holds what was reached",
                     rank.loop->state().round, rank.config.loco.rounds, rank.config.run.dir);
  }
  return OkStatus();
}

}  // namespace pulse
