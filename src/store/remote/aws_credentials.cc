#include "store/remote/aws_credentials.h"

#include <algorithm>
#include <cctype>

namespace pulse {
namespace {

constexpr uint64_t kMaxProfileFileBytes = 1 << 20;

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

StatusOr<IniFile> LoadIni(Filesystem& fs, const std::string& path) {
  if (path.empty()) return IniFile();
  const auto bytes = ReadFile(fs, path, kMaxProfileFileBytes);
  if (absl::IsNotFound(bytes.status())) return IniFile();
  PULSE_RETURN_IF_ERROR(bytes.status());
  return ParseIni(AsText(*bytes));
}

std::string FilePath(const EnvironmentLookup& environment, const char* variable,
                     const char* below_home) {
  if (auto path = environment(variable)) return *path;
  const auto home = environment("HOME");
  return home ? *home + below_home : std::string();
}

}  // namespace

IniFile ParseIni(std::string_view text) {
  IniFile file;
  std::map<std::string, std::string>* section = nullptr;
  std::string parent;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = Trimmed(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t close = line.find(']');
      if (close != std::string_view::npos) {
        section = &file[std::string(Trimmed(line.substr(1, close - 1)))];
      }
      parent.clear();
      continue;
    }
    const size_t equals = line.find('=');
    if (section == nullptr || equals == std::string_view::npos) continue;
    const std::string name = Lower(Trimmed(line.substr(0, equals)));
    const std::string value(Trimmed(line.substr(equals + 1)));
    const bool nested = (raw[0] == ' ' || raw[0] == '\t') && !parent.empty();
    (*section)[nested ? parent + "." + name : name] = value;
    if (!nested) parent = name;
  }
  return file;
}

StatusOr<AwsProfile> AwsProfile::Load(const EnvironmentLookup& environment, Filesystem& fs) {
  AwsProfile profile;
  const auto chosen = environment("AWS_PROFILE");
  profile.name_ = chosen.value_or("default");
  profile.file_ = FilePath(environment, "AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  const std::string config_path = FilePath(environment, "AWS_CONFIG_FILE", "/.aws/config");
  PULSE_ASSIGN_OR_RETURN(IniFile credentials, LoadIni(fs, profile.file_));
  PULSE_ASSIGN_OR_RETURN(IniFile config, LoadIni(fs, config_path));
  const std::string section =
      profile.name_ == "default" ? profile.name_ : "profile " + profile.name_;
  if (chosen && !credentials.contains(*chosen) && !config.contains(section)) {
    return InvalidArgument("AWS_PROFILE is \"{}\", but neither {} nor {} has such a profile",
                           *chosen, profile.file_, config_path);
  }
  profile.settings_ = std::move(credentials[profile.name_]);
  profile.settings_.merge(config[section]);
  return profile;
}

std::optional<std::string> AwsProfile::Get(const std::string& name) const {
  const auto found = settings_.find(name);
  if (found == settings_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

StatusOr<std::optional<AwsCredentials>> FindAwsCredentials(const EnvironmentLookup& environment,
                                                           Filesystem& fs) {
  const auto key = environment("AWS_ACCESS_KEY_ID");
  const auto secret = environment("AWS_SECRET_ACCESS_KEY");
  if (key.has_value() != secret.has_value()) {
    return InvalidArgument("{} is set and {} is not: set both, or neither",
                           key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                           key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  }
  if (key) {
    return AwsCredentials{*key, *secret, environment("AWS_SESSION_TOKEN").value_or(""),
                          "the environment"};
  }
  PULSE_ASSIGN_OR_RETURN(const AwsProfile profile, AwsProfile::Load(environment, fs));
  const auto profile_key = profile.Get("aws_access_key_id");
  const auto profile_secret = profile.Get("aws_secret_access_key");
  if (profile_key.has_value() != profile_secret.has_value()) {
    return InvalidArgument(
        "profile {} of {} has only one of aws_access_key_id and "
        "aws_secret_access_key",
        profile.name(), profile.file());
  }
  if (profile_key) {
    return AwsCredentials{*profile_key, *profile_secret,
                          profile.Get("aws_session_token").value_or(""),
                          fmt::format("profile {} of {}", profile.name(), profile.file())};
  }
  for (const char* other : {"credential_process", "role_arn", "sso_session", "sso_start_url",
                            "web_identity_token_file", "credential_source"}) {
    if (!profile.Get(other)) continue;
    return InvalidArgument(
        "AWS profile {} gets its credentials by {}, which is not built in: run "
        "`eval \"$(aws configure export-credentials --format env)\"` first",
        profile.name(), other);
  }
  return std::optional<AwsCredentials>();
}

AwsCredentials AwsCredentialSource::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

bool AwsCredentialSource::Renew(const AwsCredentials& stale) {
  const std::lock_guard lock(mutex_);
  if (!(current_ == stale)) return true;  // another thread did
  if (!find_) return false;
  auto found = find_();
  if (!found.ok() || !found->has_value() || **found == stale) return false;
  current_ = **std::move(found);
  return true;
}

}  // namespace pulse
