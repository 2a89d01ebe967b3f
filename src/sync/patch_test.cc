#include "sync/patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "sync/checkpoint.h"
#include "sync/diff_apply.h"
#include "sync/patch_writer.h"
#include "sync/payload_metadata.h"
#include "sync/testing.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;
using testing::Mutated;
using testing::RandomModel;
using testing::SchemaOf;
using testing::TestModel;
using testing::TinySchema;

const kernels::KernelTable& Kernels() {
  static const kernels::KernelTable table = *kernels::ChooseKernels("auto");
  return table;
}

Bytes ReadAll(const ByteSource& source) {
  Bytes bytes(source.size());
  EXPECT_TRUE(source.Read(0, bytes).ok());
  return bytes;
}

std::unique_ptr<Spool> MemorySpool() {
  return std::make_unique<Spool>(nullptr, "", uint64_t{1} << 30);
}

StatusOr<std::shared_ptr<const PayloadFile>> OpenBytes(Bytes bytes) {
  return PayloadFile::Open(std::make_shared<OwnedSource>(std::move(bytes)));
}

// A delta of one part per element of `shares`.
std::vector<Bytes> DeltaFiles(const TestModel& before, const TestModel& after,
                              const std::vector<std::vector<TensorRange>>& shares,
                              int threads = 1) {
  const ModelViewSource old_view(before.view());
  const ModelViewSource new_view(after.view());
  std::vector<EncodedDelta> deltas;
  std::vector<PartDigests> digests;
  for (const auto& share : shares) {
    auto delta =
        EncodeDelta(Kernels(), old_view, new_view, share, MemorySpool(), {.threads = threads});
    EXPECT_TRUE(delta.ok()) << delta.status();
    digests.push_back(*DeserializePartDigests(SerializePartDigests(delta->digests)));
    deltas.push_back(*std::move(delta));
  }
  const auto combined = CombineParts(after.schema, digests);
  EXPECT_TRUE(combined.ok()) << combined.status();
  EXPECT_EQ(combined->base.view, ViewDigest(before.view()));
  EXPECT_EQ(combined->target.view, ViewDigest(after.view()));
  std::vector<Bytes> files;
  for (const EncodedDelta& delta : deltas) {
    PayloadInfo info;
    info.run = "main";
    info.base = "1.1";
    info.target = "1.2";
    info.base_digest = combined->base.view;
    info.target_digest = combined->target.view;
    info.tensor_digests = combined->target.tensors;
    info.extra = {{"note", "x"}};
    files.push_back(ReadAll(**MakeDeltaFile(after.schema, delta, info)));
  }
  return files;
}

Bytes DeltaFile(const TestModel& before, const TestModel& after) {
  return DeltaFiles(before, after, {AllCells(after.schema)})[0];
}

Status Rebuild(const TestModel& before, const std::vector<Bytes>& files, const TestModel& after) {
  std::vector<std::shared_ptr<const PayloadFile>> opened;
  for (const Bytes& file : files) {
    PULSE_ASSIGN_OR_RETURN(auto one, OpenBytes(file));
    opened.push_back(std::move(one));
  }
  const ModelViewSource base(before.view());
  PULSE_ASSIGN_OR_RETURN(const auto view, PayloadView::Make(Kernels(), opened, &base));
  PULSE_ASSIGN_OR_RETURN(const ViewDigests digests, ComputeDigests(*view));
  PULSE_RETURN_IF_ERROR(view->CheckDigests(digests));
  EXPECT_EQ(digests.view, ViewDigest(after.view()));
  return OkStatus();
}

TEST(Patch, RebuildsTheTargetBitForBit) {
  TestModel model = RandomModel(TinySchema(), 1);
  std::set<RangeCodec> codecs;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const TestModel next = Mutated(model, seed, 1 + static_cast<uint32_t>(seed));
    EXPECT_TRUE(Rebuild(model, {DeltaFile(model, next)}, next).ok()) << seed;
    for (const auto& range : (*OpenBytes(DeltaFile(model, next)))->ranges())
      codecs.insert(range.codec);
    model = next;
  }
  EXPECT_EQ(codecs.size(), 3u) << "every codec should have had its turn";
}

// A view that proposes a delta of its own for the first tensor.
class ProposingSource final : public ViewSource {
 public:
  ProposingSource(const TestModel& model, WordDelta proposal)
      : view_(model.view()), proposal_(std::move(proposal)) {}
  const ModelSchema& schema() const override { return view_.schema(); }
  StatusOr<ByteView> Read(const TensorRange& range, Bytes& scratch) const override {
    return view_.Read(range, scratch);
  }
  std::optional<WordDelta> DeltaOf(const TensorRange& range, CodecId codec) const override {
    if (range.tensor != 0 || codec != CodecId::kWordDeltaFast) return std::nullopt;
    ++asked;
    return proposal_;
  }
  mutable int asked = 0;

 private:
  ModelViewSource view_;
  WordDelta proposal_;
};

TEST(Patch, ADeltaThatTheViewProposesIsTakenOnlyWhereItLeadsThere) {
  const TestModel before = RandomModel(TinySchema(), 1);
  const TestModel after = Mutated(before, 2, 20), other = Mutated(before, 3, 20);
  const auto delta_to = [&](const TestModel& model) {
    return EncodeWordDelta(Kernels(), before.tensors[0], model.tensors[0], 2).value();
  };
  WordDelta right = delta_to(after), damaged = right;
  damaged.bytes.resize(damaged.bytes.size() - 1);
  right.changed += 1000;  // tells whose it is
  const auto encode = [&](const ViewSource& view) {
    const ModelViewSource old_view(before.view());
    return EncodeDelta(Kernels(), old_view, view, AllCells(before.schema), MemorySpool(), {})
        .value();
  };
  const uint64_t changed = encode(ModelViewSource(after.view())).digests.changed;
  for (const auto& [proposal, taken] :
       {std::pair(right, true), std::pair(delta_to(other), false), std::pair(damaged, false)}) {
    const ProposingSource view(after, proposal);
    const EncodedDelta delta = encode(view);
    EXPECT_EQ(view.asked, 1);
    EXPECT_EQ(delta.digests.changed, changed + (taken ? 1000 : 0));
    EXPECT_EQ(ReadAll(*delta.blobs), ReadAll(*encode(ModelViewSource(after.view())).blobs));
  }
}

TEST(Patch, WithoutChangesHasNoBlobs) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const auto file = OpenBytes(DeltaFile(model, model));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->changed(), 0u);
  for (const PayloadRange& range : (*file)->ranges()) EXPECT_EQ(range.codec, RangeCodec::kSame);
  EXPECT_TRUE(Rebuild(model, {DeltaFile(model, model)}, model).ok());
}

TEST(Patch, WhollyChangedRangesTravelRaw) {
  const TestModel a = RandomModel(SchemaOf({{"w", DType::kF64, {1000}}}), 1);
  const TestModel b = RandomModel(a.schema, 2);
  const auto file = OpenBytes(DeltaFile(a, b));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->ranges()[0].codec, RangeCodec::kRaw);
  EXPECT_EQ((*file)->changed(), 1000u);
  EXPECT_TRUE(Rebuild(a, {DeltaFile(a, b)}, b).ok());
}

TEST(Patch, CountsASignOfZeroAsAChange) {
  TestModel a = RandomModel(SchemaOf({{"w", DType::kBF16, {4}}}), 1);
  a.tensors[0].assign(8, 0);
  TestModel b = a;
  b.tensors[0][3] = 0x80;
  const auto file = OpenBytes(DeltaFile(a, b));
  EXPECT_EQ((*file)->changed(), 1u);
  EXPECT_TRUE(Rebuild(a, {DeltaFile(a, b)}, b).ok());
}

// Three cells and a bit, split between ranks inside a cell, encoded by several threads.
class LargePatchTest : public ::testing::Test {
 protected:
  LargePatchTest()
      : before_(RandomModel(SchemaOf({{"big", DType::kBF16, {(3 * kCellBytes + 77'778) / 2}},
                                      {"small", DType::kU8, {5}}}),
                            1)),
        after_(Mutated(before_, 2, 1000)) {}

  TestModel before_;
  TestModel after_;
};

TEST_F(LargePatchTest, ThreadsDoNotChangeTheBytes) {
  const auto cells = AllCells(before_.schema);
  EXPECT_EQ(DeltaFiles(before_, after_, {cells}, 1), DeltaFiles(before_, after_, {cells}, 3));
}

TEST_F(LargePatchTest, PartsOfSeveralRanksMakeOneView) {
  const uint64_t mib = kDigestChunkBytes;
  const uint64_t end = before_.schema.tensors()[0].bytes();
  const std::vector<TensorRange> first = {{0, 0, kCellBytes},
                                          {0, kCellBytes, kCellBytes + 3 * mib}};
  const std::vector<TensorRange> second = {{0, kCellBytes + 3 * mib, 2 * kCellBytes},
                                           {0, 2 * kCellBytes, 3 * kCellBytes},
                                           {0, 3 * kCellBytes, end}};
  const std::vector<TensorRange> third = {{1, 0, 5}};
  const auto files = DeltaFiles(before_, after_, {second, third, first});
  EXPECT_TRUE(Rebuild(before_, files, after_).ok());
  EXPECT_EQ(Rebuild(before_, {files[0], files[1]}, after_).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Rebuild(before_, {files[0], files[1], files[2], files[2]}, after_).code(),
            absl::StatusCode::kDataLoss);

  // Gaps and doubles are found before anything is rebuilt.
  const ModelViewSource base(before_.view());
  for (const std::vector<size_t>& chosen :
       std::vector<std::vector<size_t>>{{0, 1}, {0, 1, 2, 2}, {1, 2}}) {
    std::vector<std::shared_ptr<const PayloadFile>> opened;
    for (const size_t i : chosen) opened.push_back(*OpenBytes(files[i]));
    EXPECT_EQ(PayloadView::Make(Kernels(), opened, &base).status().code(),
              absl::StatusCode::kDataLoss);
  }

  // The same shares as full copies; read in awkward pieces.
  const ModelViewSource view(after_.view());
  std::vector<std::shared_ptr<const PayloadFile>> anchors;
  for (const auto& share : {second, third, first}) {
    anchors.push_back(*OpenBytes(ReadAll(**MakeAnchorFile(view, share, {}))));
  }
  const auto anchor = PayloadView::Make(Kernels(), anchors, nullptr);
  ASSERT_TRUE(anchor.ok()) << anchor.status();
  EXPECT_EQ(ComputeDigests(**anchor)->view, ViewDigest(after_.view()));
  Bytes scratch;
  const TensorRange piece = {0, kCellBytes + 8, kCellBytes + 4 * mib};
  EXPECT_TRUE(std::ranges::equal(*(*anchor)->Read(piece, scratch), *view.Read(piece, scratch)));
}

TEST_F(LargePatchTest, AChainOfViewsReadsAnyPiece) {
  const TestModel last = Mutated(after_, 3, 500);
  const auto one = OpenBytes(DeltaFile(before_, after_));
  const auto two = OpenBytes(DeltaFile(after_, last));
  const ModelViewSource base(before_.view());
  const auto lower = PayloadView::Make(Kernels(), {*one}, &base);
  const auto upper = PayloadView::Make(Kernels(), {*two}, lower->get());
  ASSERT_TRUE(upper.ok());
  EXPECT_EQ(ComputeDigests(**upper)->view, ViewDigest(last.view()));
  Bytes scratch;
  const TensorRange piece = {0, 2 * kCellBytes + 16, 2 * kCellBytes + 64};
  const auto bytes = (*upper)->Read(piece, scratch);
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(std::ranges::equal(*bytes, ByteView(last.tensors[0]).subspan(piece.begin, 48)));
}

TEST(Anchor, OfAWholeModelIsAPlainCheckpoint) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const ModelViewSource view(model.view());
  PayloadInfo info;
  info.target_digest = ViewDigest(model.view());
  const Bytes bytes = ReadAll(**MakeAnchorFile(view, AllCells(model.schema), info));
  std::string name = "/tmp/pulse_patch_XXXXXX";
  const std::string folder = ::mkdtemp(name.data());
  const auto fs = MakePosixFilesystem();
  const std::string path = folder + "/a.safetensors";
  ASSERT_TRUE(WriteFileAtomically(*fs, path, bytes).ok());
  const auto checkpoint = Checkpoint::Open(*fs, path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->schema(), model.schema);
  EXPECT_EQ(ViewDigest((*checkpoint)->view()), ViewDigest(model.view()));
  std::filesystem::remove_all(folder);
}

TEST(Anchor, ReadsBackInPiecesOfAnySize) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const ModelViewSource view(model.view());
  const auto source = MakeAnchorFile(view, AllCells(model.schema), {});
  const Bytes whole = ReadAll(**source);
  for (const size_t piece : {1, 3, 7, 64}) {
    for (size_t at = 0; at < whole.size(); at += piece) {
      Bytes out(std::min(piece, whole.size() - at));
      ASSERT_TRUE((*source)->Read(at, out).ok());
      ASSERT_TRUE(std::ranges::equal(out, ByteView(whole).subspan(at, out.size()))) << at;
    }
  }
}

TEST(Patch, RefusesAnotherSchemaAndNamesTheTensor) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const Bytes file = DeltaFile(model, Mutated(model, 2, 3));
  const TestModel other = RandomModel(SchemaOf({{"embed", DType::kBF16, {16, 32}},
                                                {"norm", DType::kF32, {8}},
                                                {"scale", DType::kF64, {}},
                                                {"table", DType::kU8, {13}},
                                                {"void", DType::kBF16, {0, 4}}},
                                               {{"lm_head", "embed"}}),
                                      1);
  const Status status = Rebuild(other, {file}, other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("\"embed\""));
}

TEST(Patch, AWrongBaseIsFoundByDigestAndTheTensorNamed) {
  const TestModel model = RandomModel(TinySchema(), 1);
  TestModel next = model;
  next.tensors[0][7] ^= 1;
  TestModel wrong = model;
  wrong.tensors[0][100] ^= 1;  // in "embed", which the delta changes elsewhere
  const auto file = OpenBytes(DeltaFile(model, next));
  const ModelViewSource base(wrong.view());
  const auto view = PayloadView::Make(Kernels(), {*file}, &base);
  const Status status = (*view)->CheckDigests(*ComputeDigests(**view));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("\"embed\""));
}

TEST(Patch, EveryFlippedBitIsRefusedOrFoundByDigest) {
  const TestModel model =
      RandomModel(SchemaOf({{"a", DType::kBF16, {150}}, {"b", DType::kU8, {3}}}), 1);
  TestModel next = model;
  next.tensors[0][2] ^= 1;
  next.tensors[1][0] ^= 4;
  const Bytes good = DeltaFile(model, next);
  ASSERT_TRUE(Rebuild(model, {good}, next).ok());
  ASSERT_EQ((*OpenBytes(good))->ranges()[0].codec, RangeCodec::kFast);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ (1u << (bit % 8)));
    const auto file = OpenBytes(bad);
    if (!file.ok()) continue;
    const ModelViewSource base(model.view());
    const auto view = PayloadView::Make(Kernels(), {*file}, &base);
    if (!view.ok()) continue;
    const auto digests = ComputeDigests(**view);
    if (!digests.ok()) continue;
    // What is left are words nobody rebuilds by: names, counts, and metadata of others.
    EXPECT_TRUE(!(*view)->CheckDigests(*digests).ok() || digests->view == ViewDigest(next.view()))
        << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(OpenBytes(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size))).ok());
  }
}

// A payload file put together by hand, to lie in it.
StatusOr<std::shared_ptr<const PayloadFile>> OpenForged(
    const std::map<std::string, std::string>& changes, std::vector<TensorSpec> blobs,
    size_t data_bytes) {
  std::map<std::string, std::string> metadata = {
      {"pulse.format", "pulse-payload-1"},
      {"pulse.role", "delta"},
      {"pulse.base_digest", std::string(32, '0')},
      {"pulse.target_digest", std::string(32, '0')},
      {"pulse.tensors", R"([["w","U8",[4],"00000000000000000000000000000000",[[0,4,"raw",2]]]])"}};
  for (const auto& [key, value] : changes) {
    if (value.empty()) {
      metadata.erase(key);
    } else {
      metadata[key] = value;
    }
  }
  Bytes bytes = *WriteSafetensorsHeader(blobs, metadata);
  bytes.resize(bytes.size() + data_bytes);
  return OpenBytes(std::move(bytes));
}

TEST(Patch, RefusesForgedFiles) {
  const std::vector<TensorSpec> blob = {{"w#0", DType::kU8, {4}}};
  ASSERT_TRUE(OpenForged({}, blob, 4).ok()) << OpenForged({}, blob, 4).status();
  const std::string zeros(32, '0');
  const auto table = [&](const std::string& rows) {
    return std::map<std::string, std::string>{{"pulse.tensors", rows}};
  };
  const auto row = [&](const std::string& ranges) {
    return table("[[\"w\",\"U8\",[4],\"" + zeros + "\",[" + ranges + "]]]");
  };
  const std::vector<std::map<std::string, std::string>> lies = {
      {{"pulse.format", ""}},
      {{"pulse.role", "gift"}},
      {{"pulse.role", ""}},
      {{"pulse.base_digest", ""}},
      {{"pulse.target_digest", std::string(31, '0')}},
      {{"pulse.tensors", ""}},
      {{"pulse.unknown", "x"}},
      {{"pulse.aliases", "{\"x\":\"none\"}"}},
      table("{}"),
      table("[7]"),
      table("[[]]"),
      table("[null]"),
      table("[[\"w\",\"U8\",4,\"" + zeros + "\",[]]]"),
      table("[[\"w\",\"U8\",[-4],\"" + zeros + "\",[[0,4,\"raw\",2]]]]"),
      table("[[\"w\",\"U8\",[4],\"xyz\",[[0,4,\"raw\",2]]]]"),
      table("[ [\"w\",\"U8\",[4],\"" + zeros + "\",[[0,4,\"raw\",2]]]]"),
      table("[[\"w\",\"U8\",[18446744073709551615],\"" + zeros + "\",[[0,4,\"raw\",2]]]]"),
      table("[[\"w\",\"U8\",[4],\"" + zeros + "\",[[0,4,\"raw\",2]]],[\"a\",\"U8\",[0],\"" + zeros +
            "\",[]]]"),
      row("[0,4,\"raw\",5]"),
      row("[0,4,\"raw\",0]"),
      row("[0,4,\"same\",1]"),
      row("[0,4,\"same\",0]"),
      row("[0,5,\"raw\",2]"),
      row("[4,0,\"raw\",2]"),
      row("[0,3,\"raw\",2]"),
      row("[1,4,\"raw\",2]"),
      row("[0,4,\"fast\",2]"),
      row("[0,4,\"raw\",2],[0,4,\"raw\",2]"),
      row("[0,4,\"raw\"]"),
      row("7"),
      row("[\"0\",4,\"raw\",2]"),
      row("[0,4,2,2]"),
      row(""),
  };
  for (const auto& lie : lies) {
    EXPECT_EQ(OpenForged(lie, blob, 4).status().code(), absl::StatusCode::kDataLoss)
        << lie.begin()->first << " = " << lie.begin()->second;
  }
  EXPECT_EQ(OpenForged({{"pulse.format", "pulse-payload-2"}}, blob, 4).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(OpenForged(row("[0,4,\"tiny\",2]"), blob, 4).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(OpenForged({}, {{"w#0", DType::kI8, {4}}}, 4).ok());
  EXPECT_FALSE(OpenForged({}, {{"w#0", DType::kU8, {2, 2}}}, 4).ok());
  EXPECT_FALSE(OpenForged({}, {{"w#0", DType::kU8, {3}}}, 3).ok());
  EXPECT_FALSE(OpenForged({}, {{"w#1", DType::kU8, {4}}}, 4).ok());
  EXPECT_FALSE(OpenForged({}, {{"w#0", DType::kU8, {4}}, {"x", DType::kU8, {1}}}, 5).ok());
  EXPECT_FALSE(OpenForged({}, {}, 0).ok());
}

TEST(Patch, RefusesMetadataThatIsOurs) {
  PayloadInfo info;
  info.extra = {{"pulse.x", "y"}};
  const TestModel model = RandomModel(TinySchema(), 1);
  EXPECT_EQ(
      MakeAnchorFile(ModelViewSource(model.view()), AllCells(model.schema), info).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(PartDigests, RefuseBytesThatNoRankSends) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const auto digests = DigestRanges(ModelViewSource(model.view()), AllCells(model.schema), {});
  ASSERT_TRUE(digests.ok());
  const Bytes good = SerializePartDigests(*digests);
  ASSERT_TRUE(DeserializePartDigests(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DeserializePartDigests(ByteView(good).first(size)).ok());
  }
  Bytes longer = good;
  longer.push_back(0);
  EXPECT_FALSE(DeserializePartDigests(longer).ok());
  Bytes huge = good;
  for (size_t i = 8; i < 16; ++i) huge[i] = 0xff;  // the number of ranges
  EXPECT_FALSE(DeserializePartDigests(huge).ok());
}

TEST(PartDigests, DoNotCombineWithGapsOrDoubles) {
  const TestModel model = RandomModel(TinySchema(), 1);
  const auto all = *DigestRanges(ModelViewSource(model.view()), AllCells(model.schema), {});
  EXPECT_EQ(CombineParts(model.schema, {all})->target.view, ViewDigest(model.view()));
  EXPECT_FALSE(CombineParts(model.schema, {all, all}).ok());
  EXPECT_FALSE(CombineParts(model.schema, {}).ok());
  auto cells = AllCells(model.schema);
  cells.pop_back();
  EXPECT_FALSE(
      CombineParts(model.schema, {*DigestRanges(ModelViewSource(model.view()), cells, {})}).ok());
}

class DiffApplyTest : public ::testing::Test {
 protected:
  DiffApplyTest() {
    std::string name = "/tmp/pulse_diff_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    Write("a", a_);
    Write("b", b_);
  }
  ~DiffApplyTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const TestModel& model) {
    EXPECT_TRUE(WriteCheckpoint(*fs_, Path(name), ModelViewSource(model.view()), {}).ok());
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  std::unique_ptr<Filesystem> fs_ = MakePosixFilesystem();
  TestModel a_ = RandomModel(TinySchema(), 1);
  TestModel b_ = Mutated(a_, 2, 10);
};

TEST_F(DiffApplyTest, RebuildsFromAFileEvenWhenBlobsSpill) {
  for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{0}}) {
    const auto diff =
        DiffCheckpoints(*fs_, Kernels(), Path("a"), Path("b"), Path("p"), {.memory_bytes = memory});
    ASSERT_TRUE(diff.ok()) << diff.status();
    const auto applied = ApplyPatch(*fs_, Kernels(), Path("a"), Path("p"), Path("out"), {});
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_EQ(applied->target_digest, ViewDigest(b_.view()));
    EXPECT_EQ(applied->changed, diff->changed);
    EXPECT_EQ(ViewDigest((*Checkpoint::Open(*fs_, Path("out")))->view()), ViewDigest(b_.view()));
  }
  EXPECT_EQ(fs_->List(folder_)->size(), 4u) << "no temporary file stays";
}

TEST_F(DiffApplyTest, RefusesAWrongBaseAndLeavesNothing) {
  ASSERT_TRUE(DiffCheckpoints(*fs_, Kernels(), Path("a"), Path("b"), Path("p"), {}).ok());
  const auto applied = ApplyPatch(*fs_, Kernels(), Path("b"), Path("p"), Path("out"), {});
  EXPECT_EQ(applied.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs_->List(folder_)->size(), 3u);
}

TEST_F(DiffApplyTest, RefusesACheckpointAsAPatch) {
  EXPECT_EQ(ApplyPatch(*fs_, Kernels(), Path("a"), Path("b"), Path("out"), {}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(DiffApplyTest, RefusesADifferentSchema) {
  Write("c", RandomModel(SchemaOf({{"other", DType::kU8, {1}}}), 1));
  const auto diff = DiffCheckpoints(*fs_, Kernels(), Path("a"), Path("c"), Path("p"), {});
  EXPECT_EQ(diff.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fs_->Stat(Path("p")).ok());
}

}  // namespace
}  // namespace pulse
