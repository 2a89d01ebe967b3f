// A file of TRL's, in either layout, as a delta or an anchor: any bytes give an error, or a version
// that can be applied to a base, to an error or to new bytes.
#include "core/clock.h"
#include "fuzz_input.h"
#include "store/memory_store.h"
#include "sync/foreign/formats.h"
#include "sync/foreign/rebuild.h"

namespace pulse {
namespace {

constexpr uint64_t kElements = 100'000;

void Try(uint8_t mode, ByteView file) {
  static const ModelSchema schema = *ModelSchema::Make({{"w", DType::kBF16, {kElements}}});
  static const Bytes zeros(schema.bytes());
  static const VirtualClock clock;
  const auto choice = ChooseForeignFormat(mode % 2 == 0 ? "trl-v1" : "trl-v3");
  const bool full = mode / 2 % 2 == 1;
  const auto store = MakeMemoryStore(clock);
  const std::string key =
      full ? "anchors/step_000002.safetensors" : "deltas/step_000002.safetensors";
  fuzz::Check(store->Put(key, MemorySource(file), PutCondition::None()).ok(), "the store takes it");
  const auto marks = choice->format->List(*store, "", 1);
  fuzz::Check(marks.ok() && marks->size() == 1, "it is listed");
  const auto version = choice->format->Open(*store, marks->front(), {});
  if (!version.ok()) return;
  const ModelViewSource view(SplitContiguous(schema, zeros));
  const auto made = (*version)->Schema(&schema);
  if (!made.ok() || made->bytes() > uint64_t{1} << 22) return;
  const ForeignBase base{.view = &view, .number = 1};
  (void)DigestForeignVersion(**version, base, {}).ok();
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  const auto mode = input.Take<uint8_t>();
  pulse::Try(mode, input.TakeRest());
  return 0;
}
