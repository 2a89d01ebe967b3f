#include "store/remote/s3_xml.h"

#include <expat.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>

#include "store/remote/url.h"

namespace pulse {
namespace {

constexpr size_t kMaxDepth = 8;             // S3 nests to 4
constexpr size_t kMaxTextBytes = 16 << 10;  // a key has 1024 bytes, 3 times that when encoded
constexpr size_t kMaxMessageBytes = 300;

// Calls `leaf` for each element at its end, with its path ("ListBucketResult/Contents/Key") and the
// text directly in it.
class XmlWalk {
 public:
  using Leaf = std::function<void(std::string_view path, std::string&& text)>;

  explicit XmlWalk(Leaf leaf) : leaf_(std::move(leaf)), parser_(XML_ParserCreate("UTF-8")) {}

  Status Run(ByteView body) {
    if (parser_ == nullptr) return ResourceExhausted("out of memory in expat");
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), &OnStart, &OnEnd);
    XML_SetCharacterDataHandler(parser_.get(), &OnText);
    XML_SetStartDoctypeDeclHandler(parser_.get(), &OnDoctype);
    if (body.size() > (size_t{1} << 30)) return DataLoss("XML of {} bytes", body.size());
    const XML_Status status = XML_Parse(parser_.get(), reinterpret_cast<const char*>(body.data()),
                                        static_cast<int>(body.size()), /*isFinal=*/1);
    if (!refused_.empty()) return DataLoss("XML {}", refused_);
    if (status != XML_STATUS_OK) {
      return DataLoss("no XML: {} in line {}", XML_ErrorString(XML_GetErrorCode(parser_.get())),
                      XML_GetCurrentLineNumber(parser_.get()));
    }
    return OkStatus();
  }

 private:
  struct Deleter {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };

  void Refuse(std::string why) {
    if (refused_.empty()) refused_ = std::move(why);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  static void OnStart(void* self, const XML_Char* name, const XML_Char**) {
    auto& walk = *static_cast<XmlWalk*>(self);
    if (walk.starts_.size() >= kMaxDepth) return walk.Refuse("is nested too deeply");
    std::string_view local(name);
    local.remove_prefix(local.rfind(':') + 1);  // npos + 1 is 0
    if (local.size() > kMaxTextBytes) return walk.Refuse("has too long a name");
    walk.starts_.push_back(walk.path_.size());
    if (!walk.path_.empty()) walk.path_ += '/';
    walk.path_ += local;
    walk.text_.clear();
  }

  static void OnEnd(void* self, const XML_Char*) {
    auto& walk = *static_cast<XmlWalk*>(self);
    walk.leaf_(walk.path_, std::move(walk.text_));
    walk.text_.clear();
    walk.path_.resize(walk.starts_.back());
    walk.starts_.pop_back();
  }

  static void OnText(void* self, const XML_Char* text, int size) {
    auto& walk = *static_cast<XmlWalk*>(self);
    if (walk.text_.size() + static_cast<size_t>(size) > kMaxTextBytes) {
      return walk.Refuse("has too long a text");
    }
    walk.text_.append(text, static_cast<size_t>(size));
  }

  static void OnDoctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<XmlWalk*>(self)->Refuse("has a document type");
  }

  Leaf leaf_;
  std::unique_ptr<XML_ParserStruct, Deleter> parser_;
  std::string path_, text_, refused_;
  std::vector<size_t> starts_;  // of the path's elements
};

std::string Printable(std::string_view text, size_t limit) {
  std::string printable;
  for (const char c : text.substr(0, limit)) printable += c >= ' ' && c <= '~' ? c : ' ';
  return printable;
}

bool ParseSize(std::string_view text, uint64_t& size) {
  size = 0;
  if (text.empty() || text.size() > 18) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    size = size * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

}  // namespace

S3Error ParseS3Error(std::string_view body) {
  S3Error error;
  XmlWalk walk([&error](std::string_view path, std::string&& text) {
    if (path == "Error/Code") error.code = Printable(text, 100);
    if (path == "Error/Message") error.message = Printable(text, kMaxMessageBytes);
    if (path == "Error/Region") error.region = Printable(text, 100);
  });
  if (!walk.Run(AsBytes(body)).ok()) return {};
  return error;
}

StatusOr<S3ListResult> ParseS3ListResult(ByteView body) {
  S3ListResult result;
  ObjectInfo object;
  bool encoded = false, seen = false, well_formed = true;
  XmlWalk walk([&](std::string_view path, std::string&& text) {
    constexpr std::string_view kRoot = "ListBucketResult";
    if (!path.starts_with(kRoot)) return;
    path.remove_prefix(kRoot.size());
    if (path.empty()) seen = true;
    if (path == "/IsTruncated") result.truncated = text == "true";
    if (path == "/EncodingType") encoded = text == "url";
    if (path == "/Contents/Key") object.key = std::move(text);
    if (path == "/Contents/ETag") object.etag = std::move(text);
    if (path == "/Contents/LastModified") object.modified_unix_ns = ParseS3Time(text);
    if (path == "/Contents/Size") well_formed &= ParseSize(text, object.bytes);
    if (path == "/Contents") result.objects.push_back(std::exchange(object, {}));
    if (path == "/CommonPrefixes/Prefix") result.prefixes.push_back(std::move(text));
  });
  PULSE_RETURN_IF_ERROR(walk.Run(body));
  if (!seen || !well_formed) return DataLoss("it is no ListBucketResult");
  if (encoded) {
    for (ObjectInfo& o : result.objects) o.key = PercentDecode(o.key);
    for (std::string& prefix : result.prefixes) prefix = PercentDecode(prefix);
  }
  return result;
}

StatusOr<std::string> ParseS3Field(ByteView body, std::string_view name) {
  std::string field;
  XmlWalk walk([&](std::string_view path, std::string&& text) {
    const size_t slash = path.find('/');
    if (slash == std::string_view::npos || path.substr(0, slash) == "Error") return;
    if (path.substr(slash + 1) == name) field = std::move(text);
  });
  PULSE_RETURN_IF_ERROR(walk.Run(body));
  if (field.empty()) return DataLoss("the server's answer has no {}", name);
  return field;
}

int64_t ParseS3Time(std::string_view text) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  if (text.size() > 40 || std::sscanf(std::string(text).c_str(), "%4d-%2u-%2uT%2u:%2u:%6lf", &year,
                                      &month, &day, &hour, &minute, &second) != 6) {
    return 0;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok() || year < 1970 || year > 2200 || hour > 23 || minute > 59 || !(second >= 0) ||
      second >= 61) {
    return 0;
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t whole = ((days * 24 + hour) * 60 + minute) * 60;
  return whole * 1'000'000'000 + static_cast<int64_t>(second * 1e3) * 1'000'000;
}

}  // namespace pulse
