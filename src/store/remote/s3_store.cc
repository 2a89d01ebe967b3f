#include "store/remote/s3_store.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "store/remote/s3_probe.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxObjectBytes = uint64_t{1} << 50;  // beyond any server's
constexpr size_t kMaxListBytes = size_t{16} << 20;       // 1000 keys of 1024 bytes, encoded
constexpr size_t kMaxKeysPerPage = 1000;                 // S3's own limit
// Behind every key that starts with what it is put behind.
constexpr std::string_view kLastCharacter = "\xf4\x8f\xbf\xbf";

// An object or a folder in a listing.
struct ListedName {
  std::string name;
  std::string behind;  // what the next page has to start after
  std::optional<ObjectInfo> object;
};

class S3Store final : public Store, private ConditionalPuts {
 public:
  S3Store(S3StoreOptions options, std::unique_ptr<S3Client> client)
      : options_(std::move(options)),
        root_(options_.prefix.empty() ? "" : options_.prefix + "/"),
        client_(std::move(client)) {}

  const std::string& uri() const override { return options_.uri; }

  StatusOr<bool> HonoursConditions() override {
    const std::lock_guard lock(probe_mutex_);
    if (!honours_) {
      const std::string name =
          fmt::format("probe-{:x}-{:x}", client_->clock().UnixNs(), options_.probe_seed);
      auto found = ProbeConditions(*this, name);
      if (!found.ok()) return Where(found.status(), "trying whether it honours conditions");
      honours_ = *found;
    }
    return *honours_;
  }

  StatusOr<ObjectInfo> Stat(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    const S3Call call{
        .method = "HEAD", .key = root_ + std::string(key), .permission = "s3:GetObject"};
    auto reply = client_->Run(call);
    if (!reply.ok()) return Where(reply.status(), "stat", key);
    if (!reply->response.ok()) return Where(client_->ErrorOf(call, *reply), "stat", key);
    const auto bytes = ContentLength(reply->response);
    if (!bytes) return Where(Unavailable("the server does not say its size"), "stat", key);
    ObjectInfo info = InfoFromHeaders(reply->response);
    info.key = key;
    info.bytes = *bytes;
    return info;
  }

  StatusOr<Object> Get(std::string_view key, uint64_t max_bytes) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    Object object;
    auto info = client_->Get(root_ + std::string(key), max_bytes, object.bytes);
    if (!info.ok()) return Where(info.status(), "get", key);
    object.info = *std::move(info);
    object.info.key = key;
    return object;
  }

  Status ReadAt(std::string_view key, uint64_t offset, ByteSpan out) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    if (offset > kMaxObjectBytes || out.size() > kMaxObjectBytes) {
      return Where(DataLoss("no object has the bytes at {}", offset), "read", key);
    }
    if (out.empty()) {
      PULSE_ASSIGN_OR_RETURN(const ObjectInfo info, Stat(key));
      if (offset <= info.bytes) return OkStatus();
      return Where(DataLoss("it has {} bytes: can't read at {}", info.bytes, offset), "read", key);
    }
    return Where(client_->GetRange(root_ + std::string(key), offset, out).status(), "read", key);
  }

  StatusOr<ObjectInfo> Put(std::string_view key, const ByteSource& source,
                           const PutCondition& condition) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    const bool conditional = condition.kind != PutCondition::Kind::kNone;
    if (conditional) {
      PULSE_ASSIGN_OR_RETURN(const bool honours, HonoursConditions());
      if (!honours) return Where(Unimplemented("it ignores conditions"), "put", key);
    }
    if (source.size() <= options_.max_single_put_bytes) {
      Bytes bytes(source.size());
      PULSE_RETURN_IF_ERROR(source.Read(0, bytes));
      return PutSmall(std::string(key), bytes, condition);
    }
    if (conditional) {
      return Where(Unimplemented("a conditional put of {} bytes: at most {} are allowed",
                                 source.size(), options_.max_single_put_bytes),
                   "put", key);
    }
    auto etag = PutInParts(*client_, root_ + std::string(key), source, options_.multipart);
    if (!etag.ok()) return Where(etag.status(), "put", key);
    return ObjectInfo{std::string(key), source.size(), client_->clock().UnixNs(), *std::move(etag)};
  }

  StatusOr<ListPage> List(std::string_view prefix, std::string_view after, size_t limit,
                          bool delimited) override {
    if (limit == 0) return Where(InvalidArgument("a limit of 0: it must be positive"), "list");
    S3Call call{.query = {{"list-type", "2"},
                          {"encoding-type", "url"},
                          {"prefix", root_ + std::string(prefix)},
                          {"max-keys", std::to_string(std::min(limit, kMaxKeysPerPage))}},
                .permission = "s3:ListBucket"};
    if (!after.empty()) call.query["start-after"] = root_ + std::string(after);
    if (delimited) call.query["delimiter"] = "/";
    auto reply = client_->Run(call, kMaxListBytes);
    if (!reply.ok()) return Where(reply.status(), "list");
    if (!reply->response.ok()) return Where(client_->ErrorOf(call, *reply), "list");
    auto result = ParseS3ListResult(reply->body);
    if (!result.ok())
      return Where(Unavailable("the answer to ListObjectsV2: {}", ToStd(result.status().message())),
                   "list");
    return PageOf(*std::move(result), after, limit);
  }

  Status Delete(std::string_view key) override {
    PULSE_RETURN_IF_ERROR(CheckKey(key));
    const S3Call call{
        .method = "DELETE", .key = root_ + std::string(key), .permission = "s3:DeleteObject"};
    auto reply = client_->Run(call);
    if (!reply.ok()) return Where(reply.status(), "delete", key);
    const bool was_not_there = reply->response.status == 404 && reply->error.code != "NoSuchBucket";
    if (reply->response.ok() || was_not_there) return OkStatus();
    // Servers over a file system (rclone) refuse to delete a folder, which is no object.
    if (absl::IsNotFound(Stat(key).status()) && reply->error.code != "NoSuchBucket") {
      return OkStatus();
    }
    return Where(client_->ErrorOf(call, *reply), "delete", key);
  }

 private:
  Status Where(const Status& status, std::string_view operation, std::string_view key = {}) const {
    if (status.ok()) return status;
    return Annotate(status, key.empty()
                                ? fmt::format("{}: {}", options_.uri, operation)
                                : fmt::format("{}: {} \"{}\"", options_.uri, operation, key));
  }

  // In one request; the conditions are passed on whether the server honours them or not.
  StatusOr<ObjectInfo> PutSmall(const std::string& key, ByteView bytes,
                                const PutCondition& condition) override {
    S3Call call{.method = "PUT", .key = root_ + key, .body = bytes, .permission = "s3:PutObject"};
    call.conditional = condition.kind != PutCondition::Kind::kNone;
    if (condition.kind == PutCondition::Kind::kIfAbsent) call.headers = {"If-None-Match: *"};
    if (condition.kind == PutCondition::Kind::kIfMatch) {
      const auto strange = [](char c) { return c <= ' ' || c > '~'; };
      if (condition.etag.empty() ||
          std::any_of(condition.etag.begin(), condition.etag.end(), strange)) {
        return Where(Aborted("no object has such an etag"), "put", key);
      }
      call.headers = {"If-Match: " + condition.etag};
    }
    auto reply = client_->Run(call);
    if (!reply.ok()) return Where(reply.status(), "put", key);
    if (!reply->response.ok()) return Where(PutError(call, condition, *reply), "put", key);
    ObjectInfo info = InfoFromHeaders(reply->response);
    if (info.etag.empty()) return Stat(key);
    info.key = key;
    info.bytes = bytes.size();
    info.modified_unix_ns =
        ParseHttpDate(reply->response.Header("date")).value_or(client_->clock().UnixNs());
    return info;
  }

  Status PutError(const S3Call& call, const PutCondition& condition, const S3Reply& reply) {
    const int status = reply.response.status;
    const bool gone = condition.kind == PutCondition::Kind::kIfMatch && status == 404 &&
                      reply.error.code != "NoSuchBucket";
    if (call.conditional && (status == 412 || gone)) {
      if (reply.earlier_may_have_happened) {
        return Unavailable(
            "the condition does not hold any more, perhaps by an attempt of our own "
            "that was not answered: read again");
      }
      return Aborted("the condition does not hold: {}",
                     gone                                              ? "it is gone"
                     : condition.kind == PutCondition::Kind::kIfAbsent ? "it exists"
                                                                       : "it has changed");
    }
    return client_->ErrorOf(call, reply);
  }

  Status Remove(const std::string& key) override { return Delete(key); }

  // Names relative to the root, in order, at most `limit`; what is no key of ours is passed over.
  StatusOr<ListPage> PageOf(S3ListResult result, std::string_view after, size_t limit) const {
    std::vector<ListedName> names;
    std::string last;  // of the server's page, whether shown or not
    for (ObjectInfo& object : result.objects) {
      if (!object.key.starts_with(root_)) continue;
      object.key.erase(0, root_.size());
      last = std::max(last, object.key);
      if (object.key <= after || !CheckKey(object.key).ok()) continue;
      names.push_back({object.key, object.key, std::move(object)});
    }
    for (std::string& prefix : result.prefixes) {
      if (!prefix.starts_with(root_) || !prefix.ends_with('/')) continue;
      prefix.erase(0, root_.size());
      const std::string behind = prefix + std::string(kLastCharacter);
      last = std::max(last, behind);
      const std::string_view folder = std::string_view(prefix).substr(0, prefix.size() - 1);
      if (behind <= after || !CheckKey(folder).ok()) continue;
      names.push_back({prefix, behind, std::nullopt});
    }
    std::sort(names.begin(), names.end(),
              [](const ListedName& a, const ListedName& b) { return a.name < b.name; });
    ListPage page;
    if (result.truncated) page.next = last;
    if (names.size() > limit) {  // a server that gives more than it was asked for
      names.resize(limit);
      page.next = names.back().behind;
    }
    if (result.truncated && page.next <= after) {
      return Where(Unavailable("a page that is not the last has nothing behind \"{}\"", after),
                   "list");
    }
    for (ListedName& name : names) {
      if (name.object)
        page.objects.push_back(*std::move(name.object));
      else
        page.prefixes.push_back(std::move(name.name));
    }
    return page;
  }

  const S3StoreOptions options_;
  const std::string root_;  // "" or "prefix/"
  const std::unique_ptr<S3Client> client_;
  std::mutex probe_mutex_;
  std::optional<bool> honours_;  // guarded by probe_mutex_
};

}  // namespace

StatusOr<std::unique_ptr<Store>> OpenS3Store(S3StoreOptions options,
                                             std::unique_ptr<S3Client> client) {
  if (!options.prefix.empty()) {
    PULSE_RETURN_IF_ERROR(Annotate(CheckKey(options.prefix), options.uri + ": prefix"));
  }
  return std::make_unique<S3Store>(std::move(options), std::move(client));
}

}  // namespace pulse
