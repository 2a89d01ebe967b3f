// NCCL as a library that the program loads when a run asks for it: every other command, and every
// machine without NCCL, does without.
#include "collective/nccl/plugin.h"

#include "collective/nccl/nccl_driver.h"

#define PULSE_EXPORT extern "C" __attribute__((visibility("default")))

PULSE_EXPORT void pulse_nccl_driver(pulse::NcclTable* table) {
  *table = pulse::NcclDriver();
}

PULSE_EXPORT void pulse_nccl_facts(std::string* words) {
  *words = pulse::NcclFacts();
}
