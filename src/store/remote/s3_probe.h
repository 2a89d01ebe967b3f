// Finds out whether a server honours the conditions of puts, which some ignore without a word.
#pragma once

#include <string>

#include "store/store.h"

namespace pulse {

// What the probe tries: puts that pass conditions on to the server, whatever it does with them.
class ConditionalPuts {
 public:
  virtual ~ConditionalPuts() = default;
  virtual StatusOr<ObjectInfo> PutSmall(const std::string& key, ByteView bytes,
                                        const PutCondition& condition) = 0;
  virtual Status Remove(const std::string& key) = 0;
};

// Whether puts honour both kIfAbsent and kIfMatch. Writes objects whose names start with `name`,
// and removes them. An error if that can't be found out.
StatusOr<bool> ProbeConditions(ConditionalPuts& puts, const std::string& name);

}  // namespace pulse
