#include "store/remote/download.h"

#include <algorithm>
#include <charconv>

namespace pulse {
namespace {

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || at != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<ContentRange> ParseContentRange(std::string_view value) {
  constexpr std::string_view kUnit = "bytes ";
  if (!value.starts_with(kUnit)) return std::nullopt;
  value.remove_prefix(kUnit.size());
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ContentRange range;
  if (const std::string_view total = value.substr(slash + 1); total != "*") {
    range.total = ParseNumber(total);
    if (!range.total) return std::nullopt;
  }
  const std::string_view span = value.substr(0, slash);
  if (span == "*") return range;
  const size_t dash = span.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto begin = ParseNumber(span.substr(0, dash));
  const auto last = ParseNumber(span.substr(dash + 1));
  if (!begin || !last || *last < *begin || *last + 1 == 0) return std::nullopt;
  range.begin = *begin;
  range.end = *last + 1;
  return range;
}

std::optional<uint64_t> ContentLength(const HttpResponse& response) {
  return ParseNumber(response.Header("content-length"));
}

ObjectInfo InfoFromHeaders(const HttpResponse& response) {
  ObjectInfo info;
  info.etag = response.Header("etag");
  info.modified_unix_ns = ParseHttpDate(response.Header("last-modified")).value_or(0);
  return info;
}

Download Download::Whole(uint64_t max_bytes, MakeRequest make, IsWorthRepeating repeat) {
  Download download(std::move(make), std::move(repeat));
  download.max_bytes_ = max_bytes;
  return download;
}

Download Download::Range(uint64_t offset, ByteSpan out, MakeRequest make, IsWorthRepeating repeat) {
  Download download(std::move(make), std::move(repeat));
  download.ranged_ = true;
  download.offset_ = offset;
  download.out_ = out;
  return download;
}

void Download::StartOver() {
  got_ = 0;
  etag_.clear();
  total_.reset();
  whole_.clear();
}

StatusOr<HttpRequest> Download::Request() {
  // Without a strong etag nothing says that the rest would be of the same object.
  if (got_ > 0 && etag_.empty()) StartOver();
  PULSE_ASSIGN_OR_RETURN(HttpRequest request, make_());
  if (ranged_) {
    request.headers.push_back(
        fmt::format("Range: bytes={}-{}", offset_ + got_, offset_ + out_.size() - 1));
  } else if (got_ > 0) {
    request.headers.push_back(fmt::format("Range: bytes={}-", got_));
  }
  if (got_ > 0) request.headers.push_back("If-Match: " + etag_);
  return request;
}

Status Download::Start(const HttpResponse& head) {
  info_ = InfoFromHeaders(head);
  // Some servers (rclone) give a part with status 200, and say so in the header alone.
  const bool part = head.status == 206 || !head.Header("content-range").empty();
  PULSE_RETURN_IF_ERROR(part ? StartPart(head) : StartWhole(head));
  etag_ = info_.etag.starts_with('"') ? info_.etag : "";
  return OkStatus();
}

Status Download::StartWhole(const HttpResponse& head) {
  const auto length = ContentLength(head);
  if (ranged_) {
    if (offset_ > 0 || (length && *length > out_.size())) {
      return Unimplemented("the server ignores Range, so no part of an object can be read there");
    }
    if (length && *length < out_.size()) {
      return DataLoss("it has {} bytes: can't read {} at {}", *length, out_.size(), offset_);
    }
  }
  StartOver();
  if (ranged_) return OkStatus();
  total_ = length;
  if (length && *length > max_bytes_) {
    return ResourceExhausted("it has {} bytes, above the bound of {}", *length, max_bytes_);
  }
  if (length) whole_.reserve(*length);
  return OkStatus();
}

Status Download::StartPart(const HttpResponse& head) {
  const auto range = ParseContentRange(head.Header("content-range"));
  if (!range || range->begin != offset_ + got_ || (!ranged_ && got_ == 0)) {
    return Unavailable("asked for bytes from {} on, the server answered with \"{}\"",
                       offset_ + got_, head.Header("content-range").substr(0, 80));
  }
  const uint64_t left = (ranged_ ? out_.size() : total_.value_or(range->end)) - got_;
  if (range->end - range->begin < left) {
    return DataLoss("it ends at {}: can't read {} at {}", range->end, out_.size(), offset_);
  }
  return OkStatus();
}

Status Download::Append(ByteView bytes) {
  const uint64_t room = (ranged_ ? out_.size() : max_bytes_) - got_;
  if (bytes.size() > room) {
    if (ranged_) return DataLoss("the server sent more than the {} bytes asked for", out_.size());
    return ResourceExhausted("it is above the bound of {} bytes", max_bytes_);
  }
  if (ranged_) {
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<ptrdiff_t>(got_));
  } else {
    whole_.insert(whole_.end(), bytes.begin(), bytes.end());
  }
  got_ += bytes.size();
  return OkStatus();
}

bool Download::WorthRepeating(const HttpResponse& response) {
  // 412: it changed since we began. 416: it did, and is shorter now.
  if (got_ > 0 && (response.status == 412 || response.status == 416)) {
    StartOver();
    return true;
  }
  return repeat_(response);
}

Status Download::Finish(const HttpResponse& response) {
  if (response.status == 416) {
    return DataLoss("it ends before {}: can't read {} there", offset_, out_.size());
  }
  const uint64_t expected = ranged_ ? out_.size() : total_.value_or(got_);
  if (got_ != expected) return Unavailable("{} bytes came of {}", got_, expected);
  info_.bytes = got_;
  return OkStatus();
}

}  // namespace pulse
