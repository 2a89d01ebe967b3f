#include "store/remote/s3_multipart.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace pulse {
namespace {

constexpr uint64_t kMaxParts = 10'000;  // S3's own limit
constexpr int kUploads = 3;             // of one object, where the server wants it begun again

class Upload {
 public:
  Upload(S3Client& client, const std::string& key, const ByteSource& source,
         const MultipartOptions& options)
      : client_(client), key_(key), source_(source) {
    const uint64_t least = (source.size() + kMaxParts - 1) / kMaxParts;
    part_bytes_ = std::max(options.part_bytes, least);
    etags_.resize((source.size() + part_bytes_ - 1) / part_bytes_);
    threads_ = std::min<size_t>(static_cast<size_t>(std::max(1, options.parallel)), etags_.size());
  }

  Status Begin() {
    const S3Call call{
        .method = "POST", .key = key_, .query = {{"uploads", ""}}, .permission = "s3:PutObject"};
    PULSE_ASSIGN_OR_RETURN(const S3Reply reply, client_.Run(call));
    if (!reply.response.ok()) return client_.ErrorOf(call, reply);
    PULSE_ASSIGN_OR_RETURN(id_, ParseS3Field(reply.body, "UploadId"));
    return OkStatus();
  }

  Status PutParts() {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < threads_; ++i) threads.emplace_back([this] { Work(); });
    Work();
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

  StatusOr<std::string> Complete() {
    std::string xml = "<CompleteMultipartUpload>";
    for (size_t i = 0; i < etags_.size(); ++i) {
      xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                         Escaped(etags_[i]));
    }
    xml += "</CompleteMultipartUpload>";
    const S3Call call{.method = "POST",
                      .key = key_,
                      .query = {{"uploadId", id_}},
                      .body = AsBytes(std::string_view(xml)),
                      .permission = "s3:PutObject"};
    PULSE_ASSIGN_OR_RETURN(const S3Reply reply, client_.Run(call));
    if (!reply.response.ok()) {
      if (reply.error.code == "NoSuchUpload" && reply.earlier_may_have_happened) {
        finished_ = true;
        return Unavailable("the upload may be complete or not: an attempt was not answered");
      }
      return client_.ErrorOf(call, reply);
    }
    finished_ = true;
    auto etag = ParseS3Field(reply.body, "ETag");
    if (etag.ok()) return etag;
    // An error may come behind a 200, as the status is sent before the work is done.
    finished_ = false;
    const S3Error error = ParseS3Error(AsText(reply.body));
    return Unavailable("finishing the upload failed ({} {})", error.code,
                       client_.Redacted(error.message));
  }

  // The server has lost the thread of this upload, and wants another one.
  bool wants_restart() const { return wants_restart_; }

  void AbortUnlessFinished() {
    if (finished_ || id_.empty()) return;
    // Best effort: a bucket's lifecycle rule removes what this can't.
    client_
        .Run({.method = "DELETE",
              .key = key_,
              .query = {{"uploadId", id_}},
              .permission = "s3:AbortMultipartUpload"})
        .status()
        .IgnoreError();
  }

 private:
  static std::string Escaped(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '&')
        escaped += "&amp;";
      else if (c == '<')
        escaped += "&lt;";
      else if (c == '"')
        escaped += "&quot;";
      else
        escaped += c;
    }
    return escaped;
  }

  void Work() {
    Bytes part;
    for (size_t i; !failed_ && (i = next_++) < etags_.size();) {
      const Status status = PutPart(i, part);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = status;
      failed_ = true;
    }
  }

  Status PutPart(size_t i, Bytes& part) {
    const uint64_t at = i * part_bytes_;
    part.resize(std::min(part_bytes_, source_.size() - at));
    PULSE_RETURN_IF_ERROR(source_.Read(at, part));
    const S3Call call{.method = "PUT",
                      .key = key_,
                      .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", id_}},
                      .body = part,
                      .permission = "s3:PutObject"};
    PULSE_ASSIGN_OR_RETURN(const S3Reply reply, client_.Run(call));
    if (!reply.response.ok()) {
      // rclone passes parts on as they come, and can't take one again.
      if (reply.error.code == "InvalidPart" || reply.error.code == "NoSuchUpload") {
        wants_restart_ = true;
      }
      return client_.ErrorOf(call, reply);
    }
    etags_[i] = reply.response.Header("etag");
    if (etags_[i].empty()) return Unavailable("the server gave part {} no etag", i + 1);
    return OkStatus();
  }

  S3Client& client_;
  const std::string& key_;
  const ByteSource& source_;
  uint64_t part_bytes_ = 0;
  size_t threads_ = 1;
  std::string id_;
  std::vector<std::string> etags_;  // by part; each written by one thread
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false, wants_restart_ = false;
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_
  bool finished_ = false;
};

}  // namespace

StatusOr<std::string> PutInParts(S3Client& client, const std::string& key, const ByteSource& source,
                                 const MultipartOptions& options) {
  for (int left = kUploads;; --left) {
    Upload upload(client, key, source, options);
    PULSE_RETURN_IF_ERROR(upload.Begin());
    const Status put = upload.PutParts();
    StatusOr<std::string> etag = put.ok() ? upload.Complete() : StatusOr<std::string>(put);
    upload.AbortUnlessFinished();
    if (etag.ok() || !upload.wants_restart() || left == 1) return etag;
  }
}

}  // namespace pulse
