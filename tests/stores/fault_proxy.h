// The fault proxy (fault_proxy.py) in front of an S3 server, from a test's side.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "server_process.h"
#include "store/remote/curl_transport.h"

namespace pulse::stores {

class FaultProxy {
 public:
  // Null, with a failure, if a server does not start.
  static std::unique_ptr<FaultProxy> Start() {
    auto server = ServerProcess::Start("s3_server.py", {});
    if (server == nullptr) return nullptr;
    auto proxy = ServerProcess::Start("fault_proxy.py", {std::to_string(server->port())});
    if (proxy == nullptr) return nullptr;
    return std::unique_ptr<FaultProxy>(new FaultProxy(std::move(server), std::move(proxy)));
  }

  // What is to happen from now on, and what has happened since the last call.
  nlohmann::json Control(const nlohmann::json& settings) {
    const std::string text = settings.dump();
    HttpRequest request;
    request.method = "POST";
    request.url = proxy_->url() + "/_control";
    request.body = AsBytes(std::string_view(text));
    Sink sink;
    const HttpOutcome outcome = transport_->Send(request, sink);
    EXPECT_TRUE(outcome.status.ok() && outcome.response.ok()) << outcome.status;
    return nlohmann::json::parse(sink.text, nullptr, /*allow_exceptions=*/false);
  }
  // Faults for the coming requests, in order; "" for none.
  void Next(const std::vector<std::string>& kinds) { Control({{"next", kinds}}); }

  std::string url() const { return proxy_->url(); }
  std::string server_url() const { return server_->url(); }

 private:
  struct Sink final : HttpBodySink {
    Status Start(const HttpResponse&) override { return OkStatus(); }
    Status Append(ByteView bytes) override {
      text += AsText(bytes);
      return OkStatus();
    }
    std::string text;
  };

  FaultProxy(std::unique_ptr<ServerProcess> server, std::unique_ptr<ServerProcess> proxy)
      : server_(std::move(server)), proxy_(std::move(proxy)) {}

  std::unique_ptr<ServerProcess> server_, proxy_;
  std::unique_ptr<HttpTransport> transport_ = *MakeCurlTransport({});
};

}  // namespace pulse::stores
