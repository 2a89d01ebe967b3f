#include "app/commands/bench_updates_round.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "app/commands/bench.h"
#include "codec/update_codec.h"
#include "loco/exchange/canonical_fold.h"
#include "loco/exchange/partial_sum.h"
#include "loco/exchange/payload.h"
#include "loco/exchange/payload_fold.h"
#include "loco/exchange/ranges.h"
#include "loco/pseudo_gradient.h"

namespace pulse {
namespace {

using nlohmann::json;

// Of this thread: others on the machine count as little as they can.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
double SecondsOf(Work work) {
  const double begin = CpuSeconds();
  work();
  return CpuSeconds() - begin;
}

void Expect(const Status& status) {
  if (!status.ok()) std::abort();  // a bug of ours
}

// Median, least and most, times `scale`.
json Spread(std::vector<double> values, double scale) {
  std::sort(values.begin(), values.end());
  return {{"median", values[values.size() / 2] * scale},
          {"least", values.front() * scale},
          {"most", values.back() * scale}};
}

class RoundBench {
 public:
  RoundBench(const kernels::KernelTable& kernels, const Trained& mine,
             const std::vector<SparseUpdate>& others)
      : mine_(mine),
        elements_(mine.theta.size()),
        gate_(kernels, workers_, {{kernels::GateView::kBF16, 0, elements_}}, false),
        updates_({mine.update}),
        contributes_(1 + others.size(), 1),
        sites_(loco::GroupBySite({}, static_cast<uint32_t>(1 + others.size()))),
        coding_(kernels, {.contributes = {},
                          .entries = {},
                          .codec = {.name = UpdateCodecName::kSmall},
                          .theta = mine.theta}),
        classes_(kernels.class_rank),
        sum_(elements_) {
    coding_.classes = &classes_;
    updates_.insert(updates_.end(), others.begin(), others.end());
    for (const SparseUpdate& update : updates_) {
      whole_.push_back(Encode(update, 0, elements_));
      parts_of_mine_.push_back(Encode(update, 0, OwnerEnd(0)));
    }
    Fold(whole_, 0, elements_);
    for (size_t r = 0; r < updates_.size(); ++r) {
      const uint64_t begin = r == 0 ? 0 : OwnerEnd(r - 1);
      sums_.push_back(loco::EncodePartialSum(coding_, begin, Owned(r)));
    }
  }

  // One turn.
  void Measure() {
    residual_ = mine_.residual;  // before the reading: a round finds it in memory
    read_.push_back(SecondsOf([&] { ReadState(); }));
    SparseUpdate gated;
    gate_s_.push_back(SecondsOf([&] { gated = gate_.Gate(mine_.theta, mine_.w, residual_); }));
    classes_.Clear();
    encode_.push_back(SecondsOf([&] { (void)Encode(mine_.update, 0, elements_); }));
    fold_.push_back(SecondsOf([&] { Fold(whole_, 0, elements_); }));
    classes_.Clear();
    owned_.push_back(SecondsOf([&] { SumOwnersParts(); }));
    gathered_.push_back(gate_s_.back() + encode_.back() + fold_.back());
    partitioned_.push_back(gate_s_.back() + owned_.back());
  }

  json Results() const {
    const double ns = 1e9 / static_cast<double>(elements_);
    return {{"trainers", updates_.size()},
            {"read_state_ns_per_element", Spread(read_, ns)},
            {"gate_ns_per_element", Spread(gate_s_, ns)},
            {"encode_ns_per_element", Spread(encode_, ns)},
            {"decode_and_reduce_ns_per_element", Spread(fold_, ns)},
            {"work_ns_per_element", Spread(gathered_, ns)},
            {"work_over_four_reads", Spread(OverFourReads(gathered_), 1)},
            {"owner_partitioned_over_four_reads", Spread(OverFourReads(partitioned_), 1)}};
  }

 private:
  uint64_t OwnerEnd(size_t r) const { return loco::OwnerBegin(elements_, r + 1, updates_.size()); }
  std::span<float> Owned(size_t r) {
    const uint64_t begin = r == 0 ? 0 : OwnerEnd(r - 1);
    return std::span(sum_).subspan(begin, OwnerEnd(r) - begin);
  }
  Bytes Encode(const SparseUpdate& update, uint64_t begin, uint64_t end) const {
    return loco::EncodePayload(coding_, {.sparse = &update, .dense = {}}, begin, end);
  }
  void Fold(const std::vector<Bytes>& payloads, uint64_t begin, uint64_t end) {
    Expect(loco::FoldPayloads(coding_, sites_,
                              {payloads, contributes_, 0, {.sparse = &mine_.update, .dense = {}}},
                              begin, std::span(sum_).subspan(begin, end - begin)));
  }

  void ReadState() {
    for (const auto* array :
         {&mine_.theta, &mine_.w, &mine_.m, &mine_.v, &mine_.residual, &mine_.momentum}) {
      sink_ = sink_ + SumOfWords(AsBytes(std::span<const float>(*array)));
    }
  }

  // What the owner of the first part does.
  void SumOwnersParts() {
    for (size_t r = 0; r < updates_.size(); ++r) {
      (void)Encode(mine_.update, r == 0 ? 0 : OwnerEnd(r - 1), OwnerEnd(r));
    }
    Fold(parts_of_mine_, 0, OwnerEnd(0));
    (void)loco::EncodePartialSum(coding_, 0, Owned(0));
    for (size_t r = 1; r < updates_.size(); ++r) {
      Expect(loco::DecodePartialSum(coding_, OwnerEnd(r - 1), sums_[r], Owned(r)));
    }
  }

  std::vector<double> OverFourReads(const std::vector<double>& work) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < work.size(); ++i) ratios.push_back(work[i] / (4 * read_[i]));
    return ratios;
  }

  const Trained& mine_;
  uint64_t elements_;
  Workers workers_{1};
  loco::PseudoGradient gate_;
  std::vector<SparseUpdate> updates_;  // by trainer; mine the first
  std::vector<uint8_t> contributes_;
  loco::Sites sites_;
  loco::PayloadCoding coding_;
  ClassesOfBlocks classes_;
  std::vector<float> sum_, residual_;
  std::vector<Bytes> whole_, parts_of_mine_, sums_;
  std::vector<double> read_, gate_s_, encode_, fold_, owned_, gathered_, partitioned_;
  volatile uint64_t sink_ = 0;
};

}  // namespace

json MeasureRound(size_t repeats, const kernels::KernelTable& kernels, const Trained& mine,
                  const std::vector<SparseUpdate>& others) {
  RoundBench bench(kernels, mine, others);
  for (size_t i = 0; i < repeats; ++i) bench.Measure();
  return bench.Results();
}

void PrintRound(const json& round) {
  const auto spread = [&](const char* name) {
    const json& of = round[name];
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", of["median"].get<double>(),
                       of["least"].get<double>(), of["most"].get<double>());
  };
  const auto median = [&](const char* name) { return round[name]["median"].get<double>(); };
  fmt::print(
      "            a round of {} trainers, thread's ns/element: gate {:.2f}, encode {:.2f}, decode "
      "and reduce {:.2f}; reading the state's 24 B once {:.2f}\n"
      "            of four such reads: {}; by owner-partitioned {}\n",
      round["trainers"].get<size_t>(), median("gate_ns_per_element"),
      median("encode_ns_per_element"), median("decode_and_reduce_ns_per_element"),
      median("read_state_ns_per_element"), spread("work_over_four_reads"),
      spread("owner_partitioned_over_four_reads"));
}

}  // namespace pulse
