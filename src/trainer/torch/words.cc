#include "trainer/torch/words.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace pulse::wordle {

StatusOr<Word> ParseWord(std::string_view text) {
  const bool letters =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (text.size() != kWordLetters || !letters) {
    return InvalidArgument("\"{}\" is not a word of five letters a-z", text);
  }
  Word word;
  for (size_t i = 0; i < kWordLetters; ++i) word[i] = static_cast<uint8_t>(text[i] - 'a');
  return word;
}

std::string Spell(const Word& word) {
  std::string text;
  for (const uint8_t letter : word) text += static_cast<char>('a' + letter);
  return text;
}

StatusOr<WordList> WordList::FromText(std::string_view text, std::string_view source,
                                      size_t count) {
  std::vector<Word> candidates;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto word = ParseWord(text.substr(0, end));
    if (word.ok()) candidates.push_back(*word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  if (count < 2) return InvalidArgument("word_count is {}; the game needs at least 2 words", count);
  if (candidates.size() < count) {
    return InvalidArgument("{} has {} words of five letters a-z; word_count asks for {}", source,
                           candidates.size(), count);
  }
  std::vector<Word> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(candidates[i * candidates.size() / count]);
  return WordList(std::move(chosen));
}

StatusOr<WordList> WordList::Load(const std::string& path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    if (error != ENOENT) return ErrnoStatus(error, fmt::format("open the word list {}", path));
    return NotFound(
        "no word list at {}: install one (apt-get install wamerican) or name another file, one "
        "word a "
        "line",
        path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.bad()) return Unavailable("can't read the word list {}", path);
  return FromText(text.view(), path, count);
}

bool WordList::Contains(const Word& word) const {
  return std::binary_search(words_.begin(), words_.end(), word);
}

}  // namespace pulse::wordle
