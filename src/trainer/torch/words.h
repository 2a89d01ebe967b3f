// The words of the game: secrets and legal guesses alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace pulse::wordle {

inline constexpr size_t kWordLetters = 5;
inline constexpr size_t kAlphabet = 26;

// Letters as numbers: a = 0, ..., z = 25.
using Word = std::array<uint8_t, kWordLetters>;

// kInvalidArgument unless exactly five letters a-z.
StatusOr<Word> ParseWord(std::string_view text);
std::string Spell(const Word& word);

// An immutable, sorted set of words.
class WordList {
 public:
  // Chooses `count` words of a dictionary, one word a line. Candidates are the lines of exactly
  // five letters a-z, sorted, without repetitions; of n candidates, those numbered floor(i * n /
  // count) for i in [0, count) are taken, so the words spread over the alphabet and depend on the
  // dictionary's contents alone. `source` names the dictionary in errors.
  // kInvalidArgument: fewer candidates than `count`, or count below 2 (a game needs a secret and a
  // different opening).
  static StatusOr<WordList> FromText(std::string_view text, std::string_view source, size_t count);

  // The same from a file; kNotFound says which Debian package has one.
  static StatusOr<WordList> Load(const std::string& path, size_t count);

  size_t size() const { return words_.size(); }
  const Word& operator[](size_t i) const { return words_[i]; }
  bool Contains(const Word& word) const;

 private:
  explicit WordList(std::vector<Word> words) : words_(std::move(words)) {}
  std::vector<Word> words_;
};

}  // namespace pulse::wordle
