#include "kernels/cuda/emulated_kernels.h"

#include <vector>

#include "core/digest.h"
#include "kernels/adamw/adamw_cuda_op.h"
#include "kernels/cast_view/cast_view_cuda_op.h"
#include "kernels/cuda/on_host.h"
#include "kernels/diff/diff_cuda_op.h"
#include "kernels/digest/digest_cuda.h"
#include "kernels/reduce/reduce_cuda_op.h"

namespace pulse::kernels {
namespace {

// Runs work on the device, in the order of its streams.
class Emulator {
 public:
  Emulator(MockedDevice& device, bool backwards) : device_(&device), backwards_(backwards) {}

  template <typename Work>
  DeviceCode Run(DeviceStream stream, Work work) const {
    if (const DeviceCode code = device_->Count(); code != 0) return code;
    device_->Enqueue(stream, [work] {
      work();
      return true;
    });
    return 0;
  }
  template <typename Op>
  DeviceCode Elements(const Op& op, uint64_t n, DeviceStream stream) const {
    return Run(stream, [op, n] { RunElementsOnHost<4>(op, PlanElements(n, 4)); });
  }
  // As a launch is refused that has too little scratch.
  template <typename Op>
  DeviceCode Teams(const Op& op, uint64_t blocks, uint64_t words, Scratch scratch,
                   DeviceStream stream) const {
    if (scratch.size < TeamsFor(blocks) * words) return kDeviceInvalidValue;
    return Run(stream, [op, blocks, scratch, backwards = backwards_] {
      RunTeamsOnHost(op, blocks, scratch.data, backwards);
    });
  }
  template <typename Op, typename Words>
  auto TeamLauncher(Words words_for) const {
    return [self = *this, words_for](const Op& op, uint64_t blocks, uint64_t most, Scratch scratch,
                                     DeviceStream stream) {
      return self.Teams(op, blocks, words_for(most), scratch, stream);
    };
  }
  template <typename Op>
  auto PlainTeams() const {
    return [self = *this](const Op& op, uint64_t blocks, DeviceStream stream) {
      return self.Teams(op, blocks, 0, {}, stream);
    };
  }
  template <typename Op>
  auto ElementLauncher() const {
    return [self = *this](const Op& op, uint64_t n, DeviceStream stream) {
      return self.Elements(op, n, stream);
    };
  }
  template <typename Body>
  DeviceCode Compact(const Body& body, uint64_t n, const CompactTarget& target,
                     DeviceStream stream) const {
    if (target.starts.size != CeilDiv(n, kScatterBlockElements) + 1 || target.positions.size < n ||
        target.scratch.size < CompactScratchBytes(n)) {
      return kDeviceInvalidValue;
    }
    return Run(stream, [body, n, starts = target.starts.data] {
      RunCompactOnHost<Body::kPack>(body, n, starts);
    });
  }

 private:
  MockedDevice* device_;
  bool backwards_;
};

template <typename Word>
DiffOp<Word> DiffOpOf(DeviceSpan<const uint8_t> before, DeviceSpan<const uint8_t> after,
                      const CompactTarget& target) {
  return {reinterpret_cast<const Word*>(before.data), reinterpret_cast<const Word*>(after.data),
          target.positions.data};
}

void AddLoopKernels(const Emulator& e, DeviceKernels& t) {
  t.adamw = [e](const AdamWScalars& scalars, const DeviceAdamW& a, DeviceStream stream) {
    return e.Elements(AdamWOp{scalars, a.w.data, a.m.data, a.v.data, a.g.data}, a.w.size, stream);
  };
  t.gate = [e](const GateRunsOp& op, uint64_t n, const CompactTarget& target, DeviceStream stream) {
    return e.Compact(op, n, target, stream);
  };
  t.pseudo_gradient = e.ElementLauncher<PseudoGradientOp>();
  t.add_sparse = [e](DeviceSpan<float> sum, const DeviceSparseUpdate& update,
                     DeviceStream stream) -> DeviceCode {
    const uint64_t blocks = CeilDiv(sum.size, kScatterBlockElements);
    if (update.starts.size != blocks + 1) return kDeviceInvalidValue;
    const AddSparseOp op{sum.data, update.starts.data, update.positions.data, update.values.data};
    return e.Run(stream, [op, blocks] { RunScatterOnHost(op, blocks); });
  };
  t.add_dense = [e](DeviceSpan<float> sum, DeviceSpan<const float> addend, DeviceStream stream) {
    return e.Elements(AddDenseOp{sum.data, addend.data}, sum.size, stream);
  };
  t.mean = [e](DeviceSpan<float> sum, float trainers, DeviceStream stream) {
    return e.Elements(MeanOp{sum.data, trainers}, sum.size, stream);
  };
  t.outer_step = e.ElementLauncher<OuterStepViewOp>();
  t.count_unbounded = e.ElementLauncher<CountUnboundedOp>();
  t.count_nonzero = e.ElementLauncher<CountNonZeroOp>();
  t.count_view_changes = e.ElementLauncher<CountViewChangesOp>();
  t.synthetic_gradient = [e](const SyntheticGradientOp& op, DeviceStream stream) {
    return e.Elements(op, op.n, stream);
  };
}

void AddViewKernels(const Emulator& e, DeviceKernels& t) {
  t.cast_to_bf16 = [e](DeviceSpan<const float> in, DeviceSpan<uint16_t> out, DeviceStream stream) {
    return e.Elements(CastToBF16Op{in.data, out.data}, in.size, stream);
  };
  t.diff = [e](DeviceSpan<const uint8_t> before, DeviceSpan<const uint8_t> after,
               uint32_t word_bytes, const CompactTarget& target, DeviceStream stream) {
    return word_bytes == 2 ? e.Compact(DiffOpOf<uint16_t>(before, after, target), before.size / 2,
                                       target, stream)
                           : e.Compact(DiffOpOf<uint32_t>(before, after, target), before.size / 4,
                                       target, stream);
  };
  t.chunk_digests = [e](DeviceSpan<const uint8_t> bytes, DeviceSpan<uint8_t> digests,
                        DeviceStream stream) -> DeviceCode {
    const uint64_t chunks = CeilDiv(bytes.size, kDigestChunkBytes);
    if (BytesHashedOnDevice(bytes.size) != bytes.size || digests.size != 16 * chunks) {
      return kDeviceInvalidValue;
    }
    return e.Run(stream, [bytes, digests, chunks] {
      for (uint64_t c = 0; c < chunks; ++c) {
        const uint64_t at = c * kDigestChunkBytes;
        const Digest digest =
            DigestOf(ByteView(bytes.data + at, std::min(kDigestChunkBytes, bytes.size - at)));
        std::copy(digest.bytes.begin(), digest.bytes.end(), digests.data + 16 * c);
      }
    });
  };
}

void AddCodecs(const Emulator& e, DeviceKernels& t) {
  t.sparse_small_encode = e.TeamLauncher<SparseSmallEncodeOp>(SparseSmallScratch);
  t.sparse_small_decode = e.TeamLauncher<SparseSmallDecodeOp>(SparseSmallScratch);
  t.sparse_fast_encode = e.PlainTeams<SparseFastEncodeOp>();
  t.sparse_fast_decode = e.TeamLauncher<SparseFastDecodeOp>(GapsScratch);
  t.small_delta_encode16 = e.TeamLauncher<SmallDeltaEncodeOp<uint16_t>>(SmallDeltaScratch);
  t.small_delta_encode32 = e.TeamLauncher<SmallDeltaEncodeOp<uint32_t>>(SmallDeltaScratch);
  t.small_delta_apply16 = e.TeamLauncher<SmallDeltaApplyOp<uint16_t>>(SmallDeltaScratch);
  t.small_delta_apply32 = e.TeamLauncher<SmallDeltaApplyOp<uint32_t>>(SmallDeltaScratch);
  t.word_steps_encode16 = e.PlainTeams<WordStepsEncodeOp<uint16_t>>();
  t.word_steps_encode32 = e.PlainTeams<WordStepsEncodeOp<uint32_t>>();
  t.word_steps_apply16 = e.TeamLauncher<WordStepsApplyOp<uint16_t>>(GapsScratch);
  t.word_steps_apply32 = e.TeamLauncher<WordStepsApplyOp<uint32_t>>(GapsScratch);
}

}  // namespace

DeviceKernels EmulatedKernels(MockedDevice& device, bool backwards) {
  DeviceKernels table;
  table.name = "emulated";
  const Emulator emulator(device, backwards);
  AddLoopKernels(emulator, table);
  AddViewKernels(emulator, table);
  AddCodecs(emulator, table);
  return table;
}

}  // namespace pulse::kernels
