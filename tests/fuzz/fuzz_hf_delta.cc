// A folder of slime's: an index and a file of any bytes give an error, or a version that can be
// applied to a base, to an error or to new bytes.
#include "core/clock.h"
#include "fuzz_input.h"
#include "store/memory_store.h"
#include "sync/foreign/formats.h"
#include "sync/foreign/rebuild.h"

namespace pulse {
namespace {

constexpr uint64_t kBytes = 300;
constexpr uint64_t kDecoderBytes = uint64_t{16} << 20;

void Put(Store& store, std::string_view name, ByteView bytes) {
  const std::string key = fmt::format("weight_v000001/{}", name);
  fuzz::Check(store.Put(key, MemorySource(bytes), PutCondition::None()).ok(), "the store takes it");
}

void Try(ByteView index, ByteView file) {
  static const ModelSchema schema = *ModelSchema::Make({{"w", DType::kU8, {kBytes}}});
  static const Bytes zeros(schema.bytes());
  static const VirtualClock clock;
  const auto choice = ChooseForeignFormat("hf-delta-dir");
  const auto store = MakeMemoryStore(clock);
  if (!index.empty()) Put(*store, "model.safetensors.index.json", index);
  Put(*store, index.empty() ? "model.safetensors" : "model-00001-of-00001.safetensors", file);
  const auto marks = choice->format->List(*store, "", 0);
  fuzz::Check(marks.ok() && marks->size() == 1, "it is listed");
  const auto version =
      choice->format->Open(*store, marks->front(), {.decoder_bytes = kDecoderBytes});
  if (!version.ok()) return;
  const ModelViewSource view(SplitContiguous(schema, zeros));
  const auto made = (*version)->Schema(&schema);
  if (!made.ok() || made->bytes() > uint64_t{1} << 22) return;
  const ForeignBase base{.view = &view, .number = 0};
  (void)DigestForeignVersion(**version, base, {}).ok();
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  const auto index_bytes = input.Take<uint16_t>();
  const pulse::ByteView index = input.TakeBytes(index_bytes);
  pulse::Try(index, input.TakeRest());
  return 0;
}
