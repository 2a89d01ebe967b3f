#include "loco/checkpoint/commit_record.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace pulse::loco {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "pulseloco-checkpoint";
constexpr uint64_t kVersion = 1;

json ToJson(const CommitRecord& record) {
  json parts = json::array();
  for (const PartSeal& part : record.parts) {
    parts.push_back({{"bytes", part.bytes}, {"digest", part.digest.Hex()}});
  }
  return {{"format", kFormat},           {"version", kVersion},
          {"round", record.round},       {"trainers", record.trainers},
          {"shards", record.shards},     {"elements", record.elements},
          {"theta", record.theta.Hex()}, {"fingerprint", record.fingerprint},
          {"notes", record.notes},       {"parts", std::move(parts)}};
}

// The checksum covers the record without it.
std::string WithChecksum(json record) {
  record["checksum"] = DigestOf(AsBytes(std::string_view(record.dump()))).Hex();
  return record.dump() + "\n";
}

uint64_t UnsignedAt(const json& object, const char* key, uint64_t max) {
  const uint64_t value = object.at(key).get<uint64_t>();
  if (value > max) throw json::other_error::create(500, key, nullptr);
  return value;
}

Digest DigestAt(const json& object, const char* key) {
  const auto digest = Digest::FromHex(object.at(key).get<std::string>());
  if (!digest.ok()) throw json::other_error::create(500, key, nullptr);
  return *digest;
}

CommitRecord FromJson(const json& object) {
  constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
  CommitRecord record;
  record.round = UnsignedAt(object, "round", std::numeric_limits<uint64_t>::max());
  record.trainers = static_cast<uint32_t>(UnsignedAt(object, "trainers", kMax32));
  record.shards = static_cast<uint32_t>(UnsignedAt(object, "shards", kMax32));
  record.elements = UnsignedAt(object, "elements", std::numeric_limits<uint64_t>::max());
  record.theta = DigestAt(object, "theta");
  record.fingerprint = object.at("fingerprint").get<std::string>();
  record.notes = object.at("notes").get<std::map<std::string, std::string>>();
  for (const json& part : object.at("parts")) {
    record.parts.push_back({UnsignedAt(part, "bytes", std::numeric_limits<uint64_t>::max()),
                            DigestAt(part, "digest")});
  }
  return record;
}

}  // namespace

StatusOr<std::string> SerializeCommit(const CommitRecord& record) {
  try {
    return WithChecksum(ToJson(record));
  } catch (const json::exception& e) {
    return InvalidArgument("a commit record can't be written: {}", e.what());
  }
}

StatusOr<CommitRecord> ParseCommit(ByteView bytes) {
  CommitRecord record;
  try {
    const json object = json::parse(bytes.begin(), bytes.end());
    if (object.at("format") != kFormat) return DataLoss("it is no commit record");
    if (object.at("version") != kVersion) {
      return Unimplemented("format version {}; this build reads {}", object.at("version").dump(),
                           kVersion);
    }
    record = FromJson(object);
  } catch (const json::exception& e) {
    return DataLoss("malformed commit record: {}", e.what());
  }
  if (record.trainers == 0 || record.shards == 0 ||
      record.parts.size() != uint64_t{record.trainers} * record.shards) {
    return DataLoss("commit record of {} trainers of {} shards lists {} parts", record.trainers,
                    record.shards, record.parts.size());
  }
  // Unknown keys, another spelling, a wrong checksum: whatever we would not have written.
  PULSE_ASSIGN_OR_RETURN(const std::string canonical, SerializeCommit(record));
  if (AsText(bytes) != canonical) return DataLoss("damaged commit record: its checksum differs");
  return record;
}

}  // namespace pulse::loco
