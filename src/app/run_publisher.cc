#include "app/run_publisher.h"

#include <utility>

#include "app/parts.h"
#include "app/run_folder.h"

namespace pulse {

int64_t PublishTimeoutMs(const RunConfig& config) {
  return static_cast<int64_t>(config.loco.deadline_ms + config.loco.long_deadline_ms);
}

StatusOr<std::unique_ptr<RunPublisher>> RunPublisher::Open(RunPublisherDeps deps) {
  std::unique_ptr<RunPublisher> publisher(new RunPublisher(deps));
  const RunConfig& config = deps.config;
  const std::string bucket =
      config.publish.bucket.empty() ? RunFolder{config.run.dir}.Bucket() : config.publish.bucket;
  PULSE_ASSIGN_OR_RETURN(publisher->store_,
                         OpenBucket(bucket, BucketAccess::kCreate, deps.fs, deps.clock));
  PULSE_RETURN_IF_ERROR(publisher->OpenPublisher());
  return publisher;
}

Status RunPublisher::OpenPublisher() {
  const RunConfig& config = deps_.config;
  PublisherOptions options;
  options.run = config.run.name;
  options.state_directory = RunFolder{config.run.dir}.PublisherState();
  PULSE_ASSIGN_OR_RETURN(options.codec, CodecSettingFromName(config.publish.codec));
  options.single_writer = config.publish.single_writer;
  options.anchor_share = config.publish.anchor_share;
  options.max_chain_length = config.publish.anchor_every;
  PULSE_ASSIGN_OR_RETURN(
      publisher_,
      JointPublisher::Open(deps_.group, deps_.schema, std::move(options),
                           {*store_, deps_.fs, deps_.clock, nonces_, deps_.kernels, deps_.log},
                           PublishTimeoutMs(config)));
  return OkStatus();
}

void RunPublisher::ContinueBehind(uint64_t number) {
  const std::optional<VersionRef>& newest = publisher_->publisher().head_version();
  last_number_ = number;
  adopt_up_to_ = newest ? newest->id.number : 0;
  if (adopt_up_to_ < number) {
    deps_.log.warn(
        "the bucket's newest version is {}, the run had published {}: it was rolled back",
        adopt_up_to_, number);
  }
}

StatusOr<std::optional<Published>> RunPublisher::Adopt(const ViewSource& view, bool final) {
  auto found = publisher_->publisher().Find(last_number_ + 1);
  if (absl::IsNotFound(found.status())) {
    deps_.log.info("version {} is not kept any more: taken as published", last_number_ + 1);
    return Published{};
  }
  if (!found.ok() && !absl::IsDataLoss(found.status())) return found.status();
  PULSE_ASSIGN_OR_RETURN(const ViewDigests digests, publisher_->Digests(view));
  if (found.ok() && found->manifest.target_digest == digests.view) {
    if (!final || found->manifest.metadata.contains("final")) return *std::move(found);
    return std::nullopt;  // followers wait for the word
  }
  deps_.log.warn("version {} was published with other weights than these: a new epoch starts",
                 last_number_ + 1);
  PULSE_RETURN_IF_ERROR(publisher_->TakeOver());
  anchor_ = true;
  return std::nullopt;
}

StatusOr<std::optional<Published>> RunPublisher::Publish(const ViewSource& view, uint64_t round,
                                                         bool final) {
  if (last_number_ < adopt_up_to_) {
    auto found = Adopt(view, final);
    if (!found.ok() || *found) PULSE_RETURN_IF_ERROR(Decline(found.status()));
    if (auto& adopted = *found; adopted) {
      ++last_number_;
      if (adopted->ref.id.number == 0) return std::nullopt;
      return adopted;
    }
    adopt_up_to_ = 0;
  }
  PublishOptions options;
  options.anchor = std::exchange(anchor_, false);
  options.metadata["round"] = std::to_string(round);
  if (final) options.metadata["final"] = "true";
  PULSE_ASSIGN_OR_RETURN(Published published, publisher_->Publish(view, options));
  last_number_ = published.ref.id.number;
  return published;
}

}  // namespace pulse
