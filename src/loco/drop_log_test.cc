#include "loco/drop_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

namespace pulse::loco {
namespace {

// Lines of what a DropLog says.
class DropLogTest : public testing::Test {
 protected:
  DropLogTest() { logger_.set_pattern("%v"); }

  std::vector<std::string> Said() {
    std::istringstream lines(said_.str());
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    said_.str("");
    return all;
  }

  std::ostringstream said_;
  Logger logger_{"test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_)};
  DropLog log_{logger_, 3};
};

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(DropLogTest, IsSilentWhileAllContribute) {
  for (uint64_t round = 1; round < 5; ++round) {
    log_.Note(round, 0, std::vector<uint8_t>{1, 1, 1});
  }
  log_.End();
  EXPECT_THAT(Said(), IsEmpty());
}

TEST_F(DropLogTest, SpeaksOnceAtEachEndOfASpell) {
  log_.Note(7, 0, std::vector<uint8_t>{1, 0, 1});
  EXPECT_THAT(Said(), ElementsAre(HasSubstr("round 7, step 0: trainer 1 is left out")));
  for (uint64_t round = 8; round < 20; ++round) {
    log_.Note(round, 0, std::vector<uint8_t>{1, 0, 1});
  }
  EXPECT_THAT(Said(), IsEmpty());
  log_.Note(20, 0, std::vector<uint8_t>{1, 1, 1});
  EXPECT_THAT(Said(), ElementsAre("round 20, step 0: trainer 1 is back; left out 13 times since "
                                  "round 7"));
  log_.Note(21, 3, std::vector<uint8_t>{1, 0, 1});
  EXPECT_THAT(Said(), ElementsAre(HasSubstr("round 21, step 3: trainer 1 is left out")));
}

TEST_F(DropLogTest, KeepsTrainersApartAndTellsAtTheEnd) {
  log_.Note(1, 0, std::vector<uint8_t>{0, 1, 1});
  log_.Note(2, 0, std::vector<uint8_t>{0, 1, 0});
  EXPECT_EQ(Said().size(), 2u);
  log_.Note(3, 0, std::vector<uint8_t>{1, 1, 0});
  EXPECT_THAT(Said(), ElementsAre(HasSubstr("trainer 0 is back; left out 2 times since round 1")));
  log_.End();
  EXPECT_THAT(Said(), ElementsAre("trainer 2 was left out to the end: 2 times since round 2"));
  log_.End();
  EXPECT_THAT(Said(), IsEmpty());
}

}  // namespace
}  // namespace pulse::loco
