#include "sync/version.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace pulse {
namespace {

bool IsLowerHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Plain decimal without leading zeros, 1 .. kMaxVersionNumber.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.front() == '0' || value > kMaxVersionNumber) return std::nullopt;
  return value;
}

}  // namespace

std::string VersionId::Short() const {
  return fmt::format("{}.{}", epoch, number);
}

std::string VersionId::Folder() const {
  return fmt::format("{}.{}.{}", epoch, number, nonce);
}

std::optional<VersionId> VersionId::FromFolder(std::string_view folder) {
  const size_t first = folder.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = folder.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto epoch = ParseNumber(folder.substr(0, first));
  const auto number = ParseNumber(folder.substr(first + 1, second - first - 1));
  const std::string_view nonce = folder.substr(second + 1);
  if (!epoch || !number || !IsNonce(nonce)) return std::nullopt;
  return VersionId{*epoch, *number, std::string(nonce)};
}

Status CheckRunName(std::string_view run) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (run.empty() || run.size() > 64 || run.front() == '.' ||
      !std::all_of(run.begin(), run.end(), allowed)) {
    return InvalidArgument(
        "run name \"{}\": expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting with "
        "a dot",
        run);
  }
  return OkStatus();
}

bool IsNonce(std::string_view text) {
  return IsLowerHex(text, 32);
}

bool IsSha256Hex(std::string_view text) {
  return IsLowerHex(text, 64);
}

std::string RunPrefix(std::string_view run) {
  return fmt::format("runs/{}/", run);
}

std::string HeadKey(std::string_view run) {
  return RunPrefix(run) + "HEAD";
}

std::string ObjectKey(std::string_view run, const VersionId& id, std::string_view name) {
  return fmt::format("{}{}/{}", RunPrefix(run), id.Folder(), name);
}

std::string ManifestKey(std::string_view run, const VersionId& id) {
  return ObjectKey(run, id, "manifest.json");
}

std::string SystemNonces::Next() {
  std::array<unsigned char, 16> bytes = {};
  // Fails only where the system has no random source at all; a nonce of zeros would then break
  // every promise, so the process may not go on.
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::terminate();
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace pulse
