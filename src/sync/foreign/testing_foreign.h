// Foreign chains in memory, for the tests of this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/memory_store.h"
#include "sync/foreign/formats.h"
#include "sync/testing.h"

namespace pulse::testing {

inline ForeignEncodeOptions InMemory() {
  ForeignEncodeOptions options;
  options.make_spool = [] { return std::make_unique<Spool>(nullptr, "", uint64_t{1} << 30); };
  return options;
}

// Puts the change from `before` (null: all of it) to `after` below `prefix`.
inline Status PutForeign(Store& store, const ForeignChoice& choice, const std::string& prefix,
                         const TestModel* before, const TestModel& after, uint64_t number) {
  std::unique_ptr<ModelViewSource> old_view;
  if (before != nullptr) old_view = std::make_unique<ModelViewSource>(before->view());
  const ModelViewSource view(after.view());
  PULSE_ASSIGN_OR_RETURN(const auto encoded,
                         choice.format->Encode(old_view.get(), view, choice.encoding, InMemory()));
  ForeignLabels labels;
  labels.number = number;
  labels.target_digest = ViewDigest(after.view());
  if (before != nullptr) labels.base_digest = ViewDigest(before->view());
  PULSE_ASSIGN_OR_RETURN(const auto objects, encoded->Objects(labels));
  for (const ForeignObject& object : objects) {
    PULSE_RETURN_IF_ERROR(
        store.Put(prefix + object.key, *object.source, PutCondition::None()).status());
  }
  return OkStatus();
}

// BF16 alone, as TRL's formats want it; a scalar, an empty tensor and one of more than a block.
inline ModelSchema Bf16Schema() {
  return SchemaOf({{"embed", DType::kBF16, {700, 16}},
                   {"norm", DType::kBF16, {8}},
                   {"scale", DType::kBF16, {}},
                   {"void", DType::kBF16, {0, 4}}},
                  {{"lm_head", "embed"}});
}

}  // namespace pulse::testing
