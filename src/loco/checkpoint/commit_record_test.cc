#include "loco/checkpoint/commit_record.h"

#include <gtest/gtest.h>

namespace pulse::loco {
namespace {

CommitRecord Example() {
  CommitRecord record;
  record.round = 40;
  record.trainers = record.shards = 2;
  record.elements = 1000;
  record.theta = DigestOf(AsBytes(std::string_view("theta")));
  record.fingerprint = "mode=pulseloco\ntrainers=2\n";
  record.notes = {{"published", "1.41"}};
  for (uint64_t part = 0; part < 4; ++part) {
    record.parts.push_back({5000 + part, DigestOf(AsBytes(std::string_view("part")))});
  }
  return record;
}

TEST(CommitRecord, ComesBackAsItWas) {
  const CommitRecord record = Example();
  const auto text = SerializeCommit(record);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseCommit(AsBytes(std::string_view(*text)));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, record);
  EXPECT_EQ(parsed->part(1, 0).bytes, 5002u);
}

TEST(CommitRecord, IsRefusedWithAnyByteChangedOrMissing) {
  const auto text = SerializeCommit(Example());
  ASSERT_TRUE(text.ok());
  for (size_t at = 0; at < text->size(); ++at) {
    for (const int bit : {0, 4}) {
      std::string damaged = *text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto parsed = ParseCommit(AsBytes(std::string_view(damaged)));
      EXPECT_FALSE(parsed.ok()) << "bit " << bit << " of byte " << at;
    }
    const auto cut = ParseCommit(AsBytes(std::string_view(*text).substr(0, at)));
    EXPECT_TRUE(absl::IsDataLoss(cut.status())) << at << ": " << cut.status();
  }
}

TEST(CommitRecord, IsRefusedWithAnotherNumberOfPartsThanRanks) {
  CommitRecord record = Example();
  record.parts.pop_back();
  const auto text = SerializeCommit(record);
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(absl::IsDataLoss(ParseCommit(AsBytes(std::string_view(*text))).status()));
}

TEST(CommitRecord, CanNotHoldTextThatIsNotUtf8) {
  CommitRecord record = Example();
  record.notes["published"].push_back(static_cast<char>(0xff));
  EXPECT_TRUE(absl::IsInvalidArgument(SerializeCommit(record).status()));
}

TEST(CommitRecord, OfANewerFormatIsCalledThat) {
  std::string text = *SerializeCommit(Example());
  const size_t at = text.find("\"version\":1");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "\"version\":2");
  EXPECT_TRUE(absl::IsUnimplemented(ParseCommit(AsBytes(std::string_view(text))).status()));
}

}  // namespace
}  // namespace pulse::loco
