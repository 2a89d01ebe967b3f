// What `pulseloco --version` says: facts about this program and this machine, none of them guessed.
#pragma once

#include <string>

namespace pulse {

// The version, then a line for each thing that is compiled in, and each that was looked for here.
// Takes the time that asking a GPU's driver and loading NCCL take.
std::string VersionFacts();

}  // namespace pulse
