// A tensor of more than 2^31 elements, from sparse files: positions and sizes beyond 32 bits. Reads
// 17 GB of zeros, so it has the label slow.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sync/byte_sources.h"
#include "sync/checkpoint.h"
#include "sync/diff_apply.h"
#include "sync/patch.h"
#include "sync/testing_follow.h"

namespace pulse {
namespace {

using testing::TestKernels;

TEST(HugeTensor, AChangeBeyondTwoToThe32BytesIsFoundAndRebuilt) {
  const uint64_t elements = (uint64_t{1} << 31) + 5;
  const ModelSchema schema = testing::SchemaOf({{"huge", DType::kBF16, {elements}}});
  std::string name = "/tmp/pulse_huge_XXXXXX";
  const std::string folder = ::mkdtemp(name.data());
  const auto fs = MakePosixFilesystem();
  const Bytes header = *WriteSafetensorsHeader(schema.tensors(), {});
  for (const std::string file : {"a", "b"}) {
    const std::string path = folder + "/" + file;
    ASSERT_TRUE(WriteFileAtomically(*fs, path, header).ok());
    std::filesystem::resize_file(path, header.size() + schema.bytes());
  }
  {
    std::fstream out(folder + "/b", std::ios::in | std::ios::out | std::ios::binary);
    for (const uint64_t element : {uint64_t{7}, (uint64_t{1} << 30) + 1, elements - 1}) {
      out.seekp(static_cast<std::streamoff>(header.size() + 2 * element));
      out.put(1);
    }
  }
  const auto diff = DiffCheckpoints(*fs, TestKernels(), folder + "/a", folder + "/b", folder + "/p",
                                    {.threads = 2});
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->changed, 3u);
  EXPECT_LT(diff->patch_bytes, 100'000u);

  const auto before = Checkpoint::Open(*fs, folder + "/a");
  const ModelViewSource base((*before)->view());
  const auto patch = PayloadFile::Open(*MappedSource::Open(*fs, folder + "/p"));
  const auto view = PayloadView::Make(TestKernels(), {*patch}, &base);
  ASSERT_TRUE(view.ok()) << view.status();
  const uint64_t bytes = schema.bytes();
  Bytes scratch;
  const auto last = (*view)->Read({0, bytes / kCellBytes * kCellBytes, bytes}, scratch);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ((*last)[last->size() - 2], 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pulse
