// Starts a server script of this folder and ends it again.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace pulse::stores {

class ServerProcess {
 public:
  // script: "s3_server.py". Waits until it announces its port; null, with a test failure that says
  // what is missing, if it does not.
  static std::unique_ptr<ServerProcess> Start(const std::string& script,
                                              const std::vector<std::string>& arguments);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  int port() const { return port_; }
  std::string url(const std::string& scheme = "http") const {
    return scheme + "://127.0.0.1:" + std::to_string(port_);
  }

 private:
  ServerProcess(int pid, int port) : pid_(pid), port_(port) {}
  const int pid_;
  const int port_;
};

}  // namespace pulse::stores
