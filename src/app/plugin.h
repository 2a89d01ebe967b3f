// Loadable libraries beside the program: what only some runs need, and would cost every other run
// its loading. Program and library come from one build: their types are the same, nothing else is
// promised.
#pragma once

#include <string_view>

#include "core/status.h"

namespace pulse {

// Whether the file lies beside the program. Nothing is loaded.
bool HasPlugin(const char* file);

// The function `symbol` of the library `file`, which is loaded and never closed. kUnimplemented
// with `hint` where the file is not there; kFailedPrecondition, in the loader's words, where
// something that it stands on is not.
StatusOr<void*> LoadPlugin(const char* file, const char* symbol, std::string_view hint);

}  // namespace pulse
