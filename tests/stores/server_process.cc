#include "server_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace pulse::stores {
namespace {

constexpr int kStartTimeoutMs = 60'000;  // importing moto takes seconds on a busy machine
constexpr char kPython[] = PULSE_STORES_PYTHON;

[[noreturn]] void RunScript(const std::string& script, const std::vector<std::string>& arguments,
                            int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(out, STDOUT_FILENO);
  std::vector<std::string> words = {kPython, std::string(PULSE_STORES_DIR) + "/" + script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(kPython, argv.data());
  std::_Exit(127);
}

// The first line as a number; 0 if none comes.
int ReadPort(int in) {
  int port = 0;
  for (;;) {
    pollfd waiting{in, POLLIN, 0};
    char c = 0;
    if (::poll(&waiting, 1, kStartTimeoutMs) <= 0 || ::read(in, &c, 1) != 1) return 0;
    if (c < '0' || c > '9') return port;
    port = 10 * port + (c - '0');
  }
}

}  // namespace

std::unique_ptr<ServerProcess> ServerProcess::Start(const std::string& script,
                                                    const std::vector<std::string>& arguments) {
  if (::access(kPython, X_OK) != 0) {
    ADD_FAILURE() << kPython << " is missing: `bash tests/stores/make_venv.sh` makes it";
    return nullptr;
  }
  int ends[2];
  if (::pipe(ends) != 0) {
    ADD_FAILURE() << "pipe";
    return nullptr;
  }
  const pid_t pid = ::fork();
  if (pid == 0) RunScript(script, arguments, ends[1]);
  ::close(ends[1]);
  const int port = ReadPort(ends[0]);
  ::close(ends[0]);
  std::unique_ptr<ServerProcess> server(new ServerProcess(pid, port));
  if (port != 0) return server;
  ADD_FAILURE() << script << " did not start; try `bash tests/stores/make_venv.sh`";
  return nullptr;
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace pulse::stores
