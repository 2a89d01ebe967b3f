#include "app/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace pulse {
namespace {

constexpr int64_t kRedrawNs = 100'000'000;       // ten times a second is smooth and costs nothing
constexpr int64_t kPlainLineNs = 5'000'000'000;  // in a log file
constexpr int kBarCells = 24;

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool Console::Live() const {
  if (json || progress == ShowProgress::kNever) return false;
  return progress == ShowProgress::kAlways || isatty(STDERR_FILENO) == 1;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

ProgressBar::ProgressBar(const Console& console, std::string label, uint64_t total)
    : console_(console),
      label_(std::move(label)),
      total_(total),
      start_ns_(console.clock->NowNs()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) Print("\n");
}

void ProgressBar::Update(uint64_t done) {
  if (!console_.Live()) return;
  const int64_t now = console_.clock->NowNs();
  if (drawn_ && now - drawn_ns_ < kRedrawNs && done < total_) return;
  Draw(done, now);
}

void ProgressBar::Draw(uint64_t done, int64_t now_ns) {
  const double seconds = std::max(1e-9, static_cast<double>(now_ns - start_ns_) * 1e-9);
  const double rate = static_cast<double>(done) / seconds;
  std::string line = fmt::format("\r\x1b[K{} ", label_);
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    const int filled = static_cast<int>(share * kBarCells);
    line +=
        fmt::format("[{:#<{}}{:.<{}}] {:3.0f} % ", "", filled, "", kBarCells - filled, share * 100);
  }
  line += fmt::format("{} {}/s", FormatBytes(done), FormatBytes(static_cast<uint64_t>(rate)));
  if (total_ > done && rate > 0) {
    line += fmt::format(", {} left", FormatSeconds(static_cast<double>(total_ - done) / rate));
  }
  Print(line);
  drawn_ns_ = now_ns;
  drawn_ = true;
}

LiveLine::LiveLine(const Console& console)
    : console_(console), printed_ns_(console.clock->NowNs() - kPlainLineNs) {}

LiveLine::~LiveLine() {
  if (!pending_) return;
  Print(console_.Live() ? "\n" : last_ + "\n");
}

void LiveLine::Show(std::string_view line) {
  if (console_.json || console_.progress == ShowProgress::kNever) return;
  if (console_.Live()) {
    Print(fmt::format("\r\x1b[K{}", line));
    pending_ = true;
    return;
  }
  last_ = line;
  const int64_t now = console_.clock->NowNs();
  pending_ = now - printed_ns_ < kPlainLineNs;
  if (pending_) return;
  Print(last_ + "\n");
  printed_ns_ = now;
}

}  // namespace pulse
