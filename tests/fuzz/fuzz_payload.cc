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

class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(ByteView bytes) : bytes_(bytes.begin(), bytes.end()) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, ByteSpan out) const override {
    return MemorySource(bytes_).Read(offset, out);
  }

 private:
  Bytes bytes_;
};

void Try(ByteView bytes) {
  static const kernels::KernelTable kernels = kernels::ChooseKernels("reference").value();
  const auto file = PayloadFile::Open(std::make_shared<OwnedSource>(bytes));
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
