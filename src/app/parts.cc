#include "app/parts.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>

#include "app/torch_plugin.h"
#include "store/file_store.h"
#include "store/remote/remote_store.h"
#include "trainer/synthetic.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxKeyFileBytes = 1 << 16;  // a real one has about a hundred

StatusOr<std::unique_ptr<Trainer>> MakeWordle(const RunConfig& config,
                                              std::function<void(uint64_t, uint64_t)> progress) {
  const auto& t = config.trainer;
  TorchTrainerOptions options;
  options.seed = config.run.seed;
  options.threads = static_cast<uint32_t>(t.threads);
  options.words = t.dictionary;
  options.word_count = static_cast<uint32_t>(t.words);
  options.groups = static_cast<uint32_t>(t.groups);
  options.group_games = static_cast<uint32_t>(t.games_per_group);
  options.clip = t.clip_ratio;
  options.max_gradient_norm = t.clip_gradient;
  options.warm_start_steps = static_cast<uint32_t>(t.warm_start_steps);
  options.warm_start_games = static_cast<uint32_t>(t.warm_start_games);
  options.warm_start_learning_rate = t.warm_start_learning_rate;
  options.warm_start_threads = static_cast<uint32_t>(t.warm_start_threads);
  if (progress) {
    options.warm_start_progress = [progress](uint64_t step, uint64_t total, double /*loss*/) {
      progress(step, total);
    };
  }
  return LoadTorchTrainer(std::move(options));
}

StatusOr<std::unique_ptr<Store>> OpenRemote(std::string_view uri, Filesystem& fs, Clock& clock) {
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
  std::random_device random;
  const uint64_t seed = (uint64_t{random()} << 32) | random();
  return OpenRemoteStore(uri, {fs, clock, environment, seed});
}

}  // namespace

StatusOr<std::unique_ptr<Store>> OpenBucket(std::string_view uri, BucketAccess access,
                                            Filesystem& fs, Clock& clock) {
  if (IsRemoteUri(uri)) return OpenRemote(uri, fs, clock);
  std::string_view path = uri;
  const size_t scheme = uri.find("://");
  if (scheme != std::string_view::npos) {
    if (uri.substr(0, scheme) != "file") {
      return Unimplemented(
          "bucket {}: expected s3://, hf://buckets/, http(s)://, file:/// or a plain path",
          uri.substr(0, scheme + 3));
    }
    path = uri.substr(scheme + 3);
    if (!path.starts_with('/')) {
      return InvalidArgument("bucket {}: expected file:///absolute/path", uri);
    }
  }
  if (path.empty()) return InvalidArgument("bucket: expected file:///path or a path, not nothing");
  std::error_code error;
  const std::string root = std::filesystem::absolute(path, error).lexically_normal().string();
  if (error) return InvalidArgument("bucket {}: {}", uri, error.message());
  return OpenFileStore({.root = root, .create = access == BucketAccess::kCreate}, fs, clock);
}

StatusOr<std::shared_ptr<const SigningKey>> ReadSigningKey(Filesystem& fs,
                                                           const std::string& path) {
  if (path.empty()) return nullptr;
  PULSE_ASSIGN_OR_RETURN(const Bytes pem, ReadFile(fs, path, kMaxKeyFileBytes));
  return SigningKey::FromPem(AsText(pem));
}

StatusOr<std::string> ReadTrustedKey(Filesystem& fs, const std::string& path) {
  if (path.empty()) return std::string();
  PULSE_ASSIGN_OR_RETURN(const Bytes pem, ReadFile(fs, path, kMaxKeyFileBytes));
  return PublicKeyHex(AsText(pem));
}

kernels::AdamWOptions AdamWOf(const RunConfig& config) {
  return {.learning_rate = config.adam.learning_rate,
          .beta1 = config.adam.beta1,
          .beta2 = config.adam.beta2,
          .epsilon = config.adam.epsilon,
          .weight_decay = config.adam.weight_decay};
}

StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const RunConfig& config,
                                               std::function<void(uint64_t, uint64_t)> progress) {
  if (config.trainer.kind == "wordle") return MakeWordle(config, std::move(progress));
  SyntheticOptions options;
  options.tensors = LlmLikeTensors(config.trainer.elements);
  options.seed = config.run.seed;
  options.gradient_scale = static_cast<float>(config.trainer.gradient_scale);
  PULSE_ASSIGN_OR_RETURN(auto trainer, SyntheticTrainer::Make(std::move(options)));
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace pulse
