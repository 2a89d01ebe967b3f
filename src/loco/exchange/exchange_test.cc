// Every exchange algorithm against the fold written down once more, on data where order shows and
// on data where it does not.
#include "loco/exchange/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "collective/in_process.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/dense.h"
#include "loco/exchange/sparse_all_gather.h"
#include "trainer/synthetic.h"

namespace pulse::loco {
namespace {

// A sparse block and a bit, so that there are two dense segments, and chunks end inside blocks.
constexpr uint64_t kElements = kSparseBlockElements + 1237;

enum class Algorithm { kSparseAllGather, kDense };

struct Case {
  Algorithm algorithm;
  bool sparse_input;
};

// One trainer's data as a sparse update with `share` of the entries, and as an array with zeros.
struct Input {
  SparseUpdate sparse;
  std::vector<float> dense;
};

std::vector<Input> MakeInputs(uint32_t trainers, SyntheticData data, double share) {
  SyntheticOptions options;
  options.tensors = {{"a", DType::kBF16, {kElements}}};
  options.data = data;
  const auto trainer = *SyntheticTrainer::Make(options);
  std::vector<Input> inputs(trainers);
  for (uint32_t k = 0; k < trainers; ++k) {
    std::vector<float>& dense = inputs[k].dense;
    dense.resize(kElements);
    EXPECT_TRUE(trainer->Gradient({k, trainers, 0, 0}, dense, dense, dense).ok());
    SparseUpdate& sparse = inputs[k].sparse;
    sparse.elements = kElements;
    for (uint64_t i = 0; i < kElements; ++i) {
      if (i > 0 && i % kSparseBlockElements == 0) sparse.starts.push_back(sparse.entries());
      // Fibonacci hashing: which entries there are looks random and differs between trainers.
      const auto draw = static_cast<uint32_t>(i * 2654435769u + k * 40503u * 65536u);
      if (static_cast<double>(draw) * 0x1p-32 >= share) {
        dense[i] = 0;
        continue;
      }
      if (i % 101 == k) dense[i] = -0.0f;
      sparse.positions.push_back(static_cast<uint32_t>(i % kSparseBlockElements));
      sparse.values.push_back(dense[i]);
    }
    sparse.starts.push_back(sparse.entries());
  }
  return inputs;
}

// The canonical sum, element by element.
std::vector<float> Fold(const std::vector<Input>& inputs, std::span<const uint32_t> sites,
                        std::span<const uint8_t> contributes) {
  std::vector<float> sum(kElements);
  for (uint64_t i = 0; i < kElements; ++i) {
    for (uint32_t site = 0; site <= *std::max_element(sites.begin(), sites.end()); ++site) {
      float of_site = 0;
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (sites[k] == site && contributes[k] != 0) of_site += inputs[k].dense[i];
      }
      sum[i] += of_site;
    }
  }
  return sum;
}

std::unique_ptr<Exchange> MakeExchange(Algorithm algorithm, Communicator& communicator,
                                       std::span<const uint32_t> sites) {
  const auto kernels = *kernels::ChooseKernels("auto");
  Sites grouped = GroupBySite(sites, static_cast<uint32_t>(communicator.size()));
  if (algorithm == Algorithm::kSparseAllGather) {
    return std::make_unique<SparseAllGather>(communicator, kernels, std::move(grouped));
  }
  // Segments of one block: two of them, the last a short one.
  return std::make_unique<DenseExchange>(communicator, kernels, std::move(grouped),
                                         kSparseBlockElements);
}

struct Output {
  std::vector<float> sum;
  Traffic traffic;
  uint64_t encoded = 0;
  uint64_t received_by_communicator = 0;
};

std::vector<Output> RunExchange(Case what, const std::vector<Input>& inputs,
                                std::span<const uint32_t> sites,
                                std::span<const uint8_t> contributes) {
  auto group = *MakeInProcessGroup(static_cast<int>(inputs.size()));
  std::vector<Output> outputs(inputs.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < inputs.size(); ++k) {
    threads.emplace_back([&, k] {
      const auto exchange = MakeExchange(what.algorithm, *group[k], sites);
      Output& out = outputs[k];
      out.sum.assign(kElements, 99.0f);
      Contribution mine;
      if (contributes[k] != 0 && what.sparse_input) mine.sparse = &inputs[k].sparse;
      if (contributes[k] != 0 && !what.sparse_input) {
        out.sum = inputs[k].dense;  // a dense contribution may lie where the sum will
        mine.dense = out.sum;
      }
      out.encoded = exchange->Prepare(mine);
      const Status status = exchange->Sum(contributes, out.sum, Deadline::Never());
      EXPECT_TRUE(status.ok()) << status;
      out.traffic = exchange->traffic();
      out.received_by_communicator = group[k]->BytesReceived();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outputs;
}

size_t Differences(std::span<const float> a, std::span<const float> b) {
  size_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differences += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return differences;
}

class EveryExchange : public testing::TestWithParam<Case> {};

TEST_P(EveryExchange, ComputesTheCanonicalSumOnCancellingData) {
  for (const std::vector<uint32_t>& sites :
       {std::vector<uint32_t>{0}, {0, 0}, {0, 0, 0, 0}, {0, 1, 0, 1, 2}}) {
    const auto inputs =
        MakeInputs(static_cast<uint32_t>(sites.size()), SyntheticData::kCancelling, 0.8);
    const std::vector<uint8_t> all(sites.size(), 1);
    const auto expected = Fold(inputs, sites, all);
    for (const Output& out : RunExchange(GetParam(), inputs, sites, all)) {
      EXPECT_EQ(Differences(out.sum, expected), 0u);
    }
  }
}

TEST_P(EveryExchange, LeavesOutDroppedTrainers) {
  const auto inputs = MakeInputs(4, SyntheticData::kCancelling, 0.9);
  const std::vector<uint32_t> sites = {0, 1, 1, 0};
  for (const std::vector<uint8_t>& contributes :
       {std::vector<uint8_t>{1, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 0}}) {
    const auto expected = Fold(inputs, sites, contributes);
    for (const Output& out : RunExchange(GetParam(), inputs, sites, contributes)) {
      EXPECT_EQ(Differences(out.sum, expected), 0u);
    }
  }
}

TEST_P(EveryExchange, CountsThePayloadThatTheCommunicatorCarries) {
  const auto inputs = MakeInputs(3, SyntheticData::kExact, 0.1);
  const auto outputs = RunExchange(GetParam(), inputs, std::vector<uint32_t>{0, 0, 0},
                                   std::vector<uint8_t>{1, 1, 1});
  uint64_t sent = 0, received = 0;
  for (const Output& out : outputs) {
    EXPECT_EQ(out.traffic.received, out.received_by_communicator);
    sent += out.traffic.sent;
    received += out.traffic.received;
  }
  EXPECT_EQ(sent, received);
  if (GetParam().algorithm == Algorithm::kDense) {
    // 2 (K-1)/K * 4N, each rank's share to the rounding of chunk borders.
    EXPECT_NEAR(static_cast<double>(outputs[1].traffic.received), 2.0 * 2 / 3 * 4 * kElements, 64);
    EXPECT_EQ(outputs[1].encoded, 4 * kElements);
  } else {
    EXPECT_EQ(outputs[1].traffic.received, outputs[0].encoded + outputs[2].encoded);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, EveryExchange,
    testing::Values(Case{Algorithm::kSparseAllGather, true},
                    Case{Algorithm::kSparseAllGather, false}, Case{Algorithm::kDense, true},
                    Case{Algorithm::kDense, false}),
    [](const auto& at) {
      return fmt::format("{}Of{}",
                         at.param.algorithm == Algorithm::kDense ? "Dense" : "SparseAllGather",
                         at.param.sparse_input ? "Sparse" : "Dense");
    });

// The tests above prove something only if other orders give other sums.
TEST(CancellingData, ShowsEveryOtherOrder) {
  const auto inputs = MakeInputs(5, SyntheticData::kCancelling, 0.8);
  const std::vector<uint8_t> all(5, 1);
  const auto in_order = Fold(inputs, std::vector<uint32_t>{0, 0, 0, 0, 0}, all);
  auto reversed = inputs;
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_GT(Differences(Fold(reversed, std::vector<uint32_t>{0, 0, 0, 0, 0}, all), in_order),
            kElements / 10);
  EXPECT_GT(Differences(Fold(inputs, std::vector<uint32_t>{0, 1, 0, 1, 2}, all), in_order),
            kElements / 10);
}

TEST(GroupBySite, KeepsTrainersInOrder) {
  EXPECT_EQ(GroupBySite({}, 3), (Sites{{0, 1, 2}}));
  EXPECT_EQ(GroupBySite(std::vector<uint32_t>{1, 0, 1, 0}, 4), (Sites{{1, 3}, {0, 2}}));
}

TEST(Contribution, SparseAndDenseTurnIntoEachOther) {
  const auto inputs = MakeInputs(1, SyntheticData::kExact, 0.5);
  const SparseUpdate all = SparseFromDense(inputs[0].dense);
  EXPECT_TRUE(Validate(all).ok());
  EXPECT_EQ(all.entries(), kElements);
  std::vector<float> back(kElements, 5.0f);
  DenseFromSparse(all, 0, back);
  EXPECT_EQ(Differences(back, inputs[0].dense), 0u);
  std::vector<float> tail(1237, 5.0f);
  DenseFromSparse(inputs[0].sparse, 1, tail);
  EXPECT_EQ(Differences(tail, std::span(inputs[0].dense).last(1237)), 0u);
}

}  // namespace
}  // namespace pulse::loco
