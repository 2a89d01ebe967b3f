// Where the AWS tools look for keys, region and endpoint, in their order: the environment, then the
// profile files (~/.aws/credentials and ~/.aws/config).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "store/filesystem.h"

namespace pulse {

// The value of an environment variable; nullopt where it is not set, or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // may be empty
  std::string origin;         // "the environment", "profile default of FILE": for messages

  bool operator==(const AwsCredentials&) const = default;
};

// [section] -> name -> value, in lower case but for values. Comments begin with # or ; at the start
// of a line; an indented line belongs to the setting before it and is kept as "parent.name".
// Anything else that is no setting is passed over, as the AWS tools do.
using IniFile = std::map<std::string, std::map<std::string, std::string>>;
IniFile ParseIni(std::string_view text);

// What one profile says, credentials file before config file.
class AwsProfile {
 public:
  // The profile AWS_PROFILE names, or "default"; AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE
  // name the files. Files that are not there are empty; kInvalidArgument if AWS_PROFILE is set and
  // no file has it.
  static StatusOr<AwsProfile> Load(const EnvironmentLookup& environment, Filesystem& fs);

  std::optional<std::string> Get(const std::string& name) const;
  const std::string& name() const { return name_; }
  const std::string& file() const { return file_; }  // the credentials file

 private:
  std::string name_, file_;
  std::map<std::string, std::string> settings_;
};

// nullopt if there are none anywhere. kInvalidArgument for half a pair, and for a profile whose
// credentials come from something not built in (sso, role_arn, credential_process): says what to
// do.
StatusOr<std::optional<AwsCredentials>> FindAwsCredentials(const EnvironmentLookup& environment,
                                                           Filesystem& fs);

// Credentials in use. Those of a profile file may be replaced there while the program runs, as
// tools that renew session tokens do. Thread-safe.
class AwsCredentialSource {
 public:
  using Find = std::function<StatusOr<std::optional<AwsCredentials>>()>;

  AwsCredentialSource(AwsCredentials first, Find find)
      : current_(std::move(first)), find_(std::move(find)) {}

  AwsCredentials Current() const;
  // Looks again; true if it found others than `stale`.
  bool Renew(const AwsCredentials& stale);

 private:
  mutable std::mutex mutex_;
  AwsCredentials current_;  // guarded by mutex_
  Find find_;
};

}  // namespace pulse
