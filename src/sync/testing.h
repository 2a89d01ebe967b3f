// Small models for the tests of this module.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/schema.h"
#include "core/view.h"
#include "sync/version.h"

namespace pulse::testing {

// A model in memory whose bytes a test may change.
struct TestModel {
  ModelSchema schema;
  std::vector<Bytes> tensors;

  ModelView view() const {
    ModelView view{&schema, {}};
    for (const Bytes& tensor : tensors) view.tensors.emplace_back(tensor);
    return view;
  }
};

inline ModelSchema SchemaOf(std::vector<TensorSpec> specs,
                            std::map<std::string, std::string> aliases = {}) {
  return *ModelSchema::Make(std::move(specs), std::move(aliases));
}

// A few dtypes, a scalar, an empty tensor and a tied name; 1.1 KiB. "embed" is large enough for a
// small change of it to be worth encoding; the others travel raw.
inline ModelSchema TinySchema() {
  return SchemaOf({{"embed", DType::kBF16, {32, 16}},
                   {"norm", DType::kF32, {8}},
                   {"scale", DType::kF64, {}},
                   {"table", DType::kU8, {13}},
                   {"void", DType::kBF16, {0, 4}}},
                  {{"lm_head", "embed"}});
}

// Random bits, NaNs and all.
inline TestModel RandomModel(const ModelSchema& schema, uint64_t seed) {
  TestModel model{schema, {}};
  Rng rng(seed, {});
  for (const TensorSpec& spec : schema.tensors()) {
    Bytes& bytes = model.tensors.emplace_back(spec.bytes());
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.U32());
  }
  return model;
}

// Changes about one byte in `one_in`, at random places; returns the changed model.
inline TestModel Mutated(const TestModel& model, uint64_t seed, uint32_t one_in) {
  TestModel changed = model;
  Rng rng(seed, {RngUse::kTest, 1, 0, 0});
  for (Bytes& bytes : changed.tensors) {
    if (bytes.empty()) continue;
    const size_t count = bytes.size() / one_in + 1;
    for (size_t i = 0; i < count; ++i) {
      uint8_t& byte = bytes[rng.Below(static_cast<uint32_t>(bytes.size()))];
      byte = static_cast<uint8_t>(byte + 1 + rng.Below(3));
    }
  }
  return changed;
}

// 32 digits that count up behind a prefix of 8, so that a failed run can be read.
class CountingNonces final : public NonceSource {
 public:
  explicit CountingNonces(uint32_t prefix) : prefix_(prefix) {}
  std::string Next() override { return fmt::format("{:08x}{:024x}", prefix_, ++count_); }

 private:
  uint32_t prefix_;
  std::atomic<uint64_t> count_ = 0;
};

}  // namespace pulse::testing
