// PayloadFile takes any bytes: an error, or a payload whose ranges lie in its schema and can be
// applied to a base, to an error or to new bytes.
#include <memory>

#include "fuzz_input.h"
#include "kernels/kernels.h"
#include "store/store.h"
#include "sync/patch.h"

namespace pulse {
namespace {

constexpr uint64_t kMostRangeBytes = 1 << 20;  // of what is applied; larger ranges are only opened

void Try(ByteView bytes) {
  static const kernels::KernelTable kernels = kernels::ChooseKernels("reference").value();
  const auto file =
      PayloadFile::Open(std::make_shared<OwnedSource>(Bytes(bytes.begin(), bytes.end())));
  if (!file.ok()) return;
  for (size_t i = 0; i < (*file)->ranges().size(); ++i) {
    const PayloadRange& range = (*file)->ranges()[i];
    fuzz::Check(range.range.tensor < (*file)->schema().tensors().size(), "a tensor of the schema");
    fuzz::Check(range.range.end <= (*file)->schema().tensors()[range.range.tensor].bytes(),
                "inside its tensor");
    if (range.range.bytes() > kMostRangeBytes) continue;
    Bytes base(range.range.bytes());
    (void)(*file)->Apply(kernels, i, base).ok();
  }
}

}  // namespace
}  // namespace pulse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::Try({data, size});
  return 0;
}
