// What a person or a script sees: results on stdout, progress and errors on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace pulse {

// How much a command shows while it works. kAuto: a bar on a terminal, nothing in a pipe.
enum class ShowProgress { kAuto, kAlways, kNever };

struct Console {
  bool json = false;  // results as one JSON document on stdout; no progress
  ShowProgress progress = ShowProgress::kAuto;
  Clock* clock = nullptr;

  bool Live() const;  // whether a line may be rewritten on stderr
};

// "1.5 GB", "312 kB": decimal units, three digits.
std::string FormatBytes(uint64_t bytes);
// "850 ms", "12 s", "3 min 20 s".
std::string FormatSeconds(double seconds);

// A bar with rate and remaining time, rewritten in place at most ten times a second; silent unless
// console.Live(). Finishes its line when destroyed. Not thread-safe.
class ProgressBar {
 public:
  // total in bytes; 0 if unknown.
  ProgressBar(const Console& console, std::string label, uint64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(uint64_t done);

 private:
  void Draw(uint64_t done, int64_t now_ns);

  const Console& console_;
  std::string label_;
  uint64_t total_;
  int64_t start_ns_;
  int64_t drawn_ns_ = 0;
  bool drawn_ = false;
};

// One line rewritten in place ("round 12/100 ..."). Where nothing can be rewritten it is printed as
// a line of its own, at most every five seconds and at the end.
class LiveLine {
 public:
  explicit LiveLine(const Console& console);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void Show(std::string_view line);

 private:
  const Console& console_;
  std::string last_;
  int64_t printed_ns_;
  bool pending_ = false;
};

}  // namespace pulse
