#include "trainer/torch/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace pulse::wordle {
namespace {

using testing::HasSubstr;

std::vector<std::string> Spelled(const WordList& words) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) out.push_back(Spell(words[i]));
  return out;
}

TEST(WordList, TakesEvenlySpreadWordsOfFiveSmallLetters) {
  const char* text =
      "zebra\nApple\napple\nit's\nangels\nbread\ncrane\ncrane\ncaf\xc3\xa9\ndough\neight\nfancy";
  const auto words = WordList::FromText(text, "test", 3);
  ASSERT_TRUE(words.ok()) << words.status();
  // Of apple bread crane dough eight fancy zebra: numbers 0, 2 and 4.
  EXPECT_THAT(Spelled(*words), testing::ElementsAre("apple", "crane", "eight"));
  EXPECT_TRUE(words->Contains(*ParseWord("crane")));
  EXPECT_FALSE(words->Contains(*ParseWord("bread")));
}

TEST(WordList, DoesNotDependOnTheOrderOfTheDictionary) {
  const auto a = WordList::FromText("crane\nbread\napple\n", "test", 2);
  const auto b = WordList::FromText("apple\ncrane\nbread", "test", 2);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(Spelled(*a), Spelled(*b));
}

TEST(WordList, SaysHowToGetAMissingDictionary) {
  const auto words = WordList::Load("/nonexistent/words", 128);
  EXPECT_EQ(words.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(words.status().message()),
      testing::AllOf(HasSubstr("/nonexistent/words"), HasSubstr("apt-get install wamerican")));
}

TEST(WordList, RefusesADictionaryThatIsTooSmallAndAGameOfOneWord) {
  EXPECT_EQ(WordList::FromText("apple\nbread\n", "tiny.txt", 3).status().message(),
            "tiny.txt has 2 words of five letters a-z; word_count asks for 3");
  EXPECT_EQ(WordList::FromText("apple\nbread\n", "tiny.txt", 1).status().message(),
            "word_count is 1; the game needs at least 2 words");
  EXPECT_FALSE(WordList::Load("/", 2).ok());  // a directory
}

TEST(ParseWord, GivesWhatSpellSpells) {
  EXPECT_EQ(Spell(*ParseWord("crazy")), "crazy");
  for (const char* bad : {"", "four", "sixsix", "Crane", "cr ne", "cran\x80"}) {
    EXPECT_FALSE(ParseWord(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace pulse::wordle
