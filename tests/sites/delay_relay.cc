// Distance on one machine, where the kernel's netem is not available: a link between two network
// namespaces that hands every frame on after a set time.
//
// Usage: delay_relay DELAY_MS NAMESPACE DEVICE NAMESPACE DEVICE
// Makes the two devices (TAP), prints "ready" and relays until it is killed.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMaxFrameBytes = 65536;
// What lies on the way in one direction; beyond it frames are dropped, as a full router does. At
// 1 Gbit/s and 150 ms 19 MB are on the way.
constexpr size_t kMaxBytesOnTheWay = size_t{64} << 20;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "delay_relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// A TAP device in that namespace; this process ends up there.
int OpenDevice(const char* network_namespace, const char* device) {
  const std::string path = std::string("/run/netns/") + network_namespace;
  const int entry = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (entry < 0 || setns(entry, CLONE_NEWNET) != 0) Fail(path);
  close(entry);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) Fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
  if (ioctl(tap, TUNSETIFF, &request) != 0) Fail(device);
  return tap;
}

// One direction of the link.
class Lane {
 public:
  Lane(int from, int to, std::chrono::milliseconds delay) : from_(from), to_(to), delay_(delay) {}

  // All frames that have come.
  void Take() {
    while (true) {
      const ssize_t length = read(from_, buffer_.data(), buffer_.size());
      if (length <= 0) return;  // nothing more, or the device is down for now
      const size_t bytes = static_cast<size_t>(length);
      if (on_the_way_ + bytes > kMaxBytesOnTheWay) continue;
      on_the_way_ += bytes;
      frames_.push_back({SteadyClock::now() + delay_, {buffer_.data(), buffer_.data() + bytes}});
    }
  }

  // All frames whose time has come.
  void HandOn() {
    while (!frames_.empty() && frames_.front().due <= SteadyClock::now()) {
      const std::vector<char>& bytes = frames_.front().bytes;
      // A device that is down or full loses the frame, as a wire does.
      [[maybe_unused]] const ssize_t written = write(to_, bytes.data(), bytes.size());
      on_the_way_ -= bytes.size();
      frames_.pop_front();
    }
  }

  // Until the next frame is due; negative: none is on the way.
  std::chrono::nanoseconds Rest() const {
    if (frames_.empty()) return std::chrono::nanoseconds(-1);
    const auto rest = frames_.front().due - SteadyClock::now();
    return rest > rest.zero() ? rest : rest.zero();
  }

 private:
  struct Frame {
    SteadyClock::time_point due;
    std::vector<char> bytes;
  };

  int from_;
  int to_;
  std::chrono::milliseconds delay_;
  std::array<char, kMaxFrameBytes> buffer_{};
  std::deque<Frame> frames_;
  size_t on_the_way_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const long delay_ms = argc == 6 ? std::strtol(argv[1], &end, 10) : -1;
  if (argc != 6 || *end != '\0' || delay_ms < 0 || delay_ms > 10'000) {
    std::fprintf(stderr, "usage: delay_relay DELAY_MS NAMESPACE DEVICE NAMESPACE DEVICE\n");
    return 2;
  }
  const int a = OpenDevice(argv[2], argv[3]);
  const int b = OpenDevice(argv[4], argv[5]);
  const std::chrono::milliseconds delay(delay_ms);
  static Lane there(a, b, delay);
  static Lane back(b, a, delay);
  std::puts("ready");
  std::fflush(stdout);

  while (true) {
    timespec wait{};
    bool waits = false;
    for (const Lane* lane : {&there, &back}) {
      const auto rest = lane->Rest();
      if (rest.count() < 0) continue;
      const timespec until{rest.count() / 1'000'000'000, rest.count() % 1'000'000'000};
      if (!waits || until.tv_sec < wait.tv_sec ||
          (until.tv_sec == wait.tv_sec && until.tv_nsec < wait.tv_nsec)) {
        wait = until;
      }
      waits = true;
    }
    std::array<pollfd, 2> devices{{{a, POLLIN, 0}, {b, POLLIN, 0}}};
    if (ppoll(devices.data(), devices.size(), waits ? &wait : nullptr, nullptr) < 0 &&
        errno != EINTR) {
      Fail("poll");
    }
    there.Take();
    back.Take();
    there.HandOn();
    back.HandOn();
  }
}
