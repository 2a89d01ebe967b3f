#include "store/remote/curl_status.h"

namespace pulse {

CurlFailure TranslateCurlFailure(CURLcode code, std::string_view detail, std::string_view host) {
  if (detail.empty()) detail = curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {
          Unavailable("unknown host {}: check the endpoint's name and this machine's DNS", host),
          true};
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {Unavailable("unknown proxy host ({}): check https_proxy and http_proxy", detail),
              true};
    case CURLE_COULDNT_CONNECT:
      return {Unavailable("can't connect to {} ({}): is the server up and the port right?", host,
                          detail),
              true};
    case CURLE_PEER_FAILED_VERIFICATION:
      return {PermissionDenied("{} has a TLS certificate that is not trusted here ({}): name its "
                               "CA's certificate with AWS_CA_BUNDLE or ?ca=FILE",
                               host, detail),
              false};
    case CURLE_SSL_CACERT_BADFILE:
      return {InvalidArgument("the CA bundle can't be read ({}): check AWS_CA_BUNDLE, "
                              "SSL_CERT_FILE and ?ca=FILE",
                              detail),
              false};
    case CURLE_SSL_CONNECT_ERROR:
      return {Unavailable("no TLS connection to {} ({}): does it speak TLS on this port?", host,
                          detail),
              true};
    case CURLE_OPERATION_TIMEDOUT:
      return {DeadlineExceeded("{} did not answer in time ({})", host, detail), true};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {InvalidArgument("{} is no address that can be asked ({})", host, detail), false};
    case CURLE_OUT_OF_MEMORY:
      return {ResourceExhausted("out of memory in libcurl"), false};
    case CURLE_FAILED_INIT:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_UNKNOWN_OPTION:
    case CURLE_NOT_BUILT_IN:
      return {Internal("libcurl: {}", detail), false};
    default:  // sent or received amiss: a reset, a short body, a garbled answer
      return {Unavailable("connection to {} failed ({})", host, detail), true};
  }
}

}  // namespace pulse
