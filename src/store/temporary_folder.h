// A folder for one test, on a real file system; gone afterwards.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pulse {

class TemporaryFolder {
 public:
  // kDisk has real fsyncs, which take milliseconds. kMemory (tmpfs, where the machine has it) is
  // for tests that do thousands.
  enum class Where { kDisk, kMemory };

  explicit TemporaryFolder(Where where = Where::kDisk) {
    std::string base = testing::TempDir();
    if (where == Where::kMemory && ::access("/dev/shm", W_OK) == 0) base = "/dev/shm/";
    path_ = base + "pulse-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << path_;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace pulse
