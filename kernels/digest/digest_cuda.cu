#include "kernels/cuda/elementwise.cuh"
#include "kernels/digest/digest_cuda.h"
#include "kernels/digest/xxh3_chunk.h"

namespace pulse::kernels {
namespace {

// Word: what the chunks are aligned to; 16 bytes as they come.
struct Aligned16 {};
template <typename Word>
__device__ Pack<uint64_t, 2> Load(const uint8_t* at) {
  if constexpr (std::is_same_v<Word, Aligned16>) {
    return LoadPack<2>(reinterpret_cast<const uint64_t*>(at));
  } else {
    return LoadXxh3Data<Word>(at);
  }
}

// The sum over the threads of a warp that share a pair of lanes: those 4, 8, 12, ... apart.
__device__ Xxh3Lanes SumOverStripes(Xxh3Lanes lanes) {
  for (int apart = 4; apart < 32; apart *= 2) {
    Xxh3Lanes other;
    other.acc[0] = __shfl_xor_sync(0xFFFFFFFF, lanes.acc[0], apart);
    other.acc[1] = __shfl_xor_sync(0xFFFFFFFF, lanes.acc[1], apart);
    lanes.Add(other);
  }
  return lanes;
}

__device__ uint64_t SumOverPairs(uint64_t part) {
  part += __shfl_xor_sync(0xFFFFFFFF, part, 1);
  return part + __shfl_xor_sync(0xFFFFFFFF, part, 2);
}

__device__ uint64_t SwapBytes(uint64_t x) {
  const uint32_t low = static_cast<uint32_t>(x), high = static_cast<uint32_t>(x >> 32);
  return uint64_t{__byte_perm(low, 0, 0x0123)} << 32 | __byte_perm(high, 0, 0x0123);
}

// One warp a chunk.
template <typename Word>
__global__ void __launch_bounds__(32 * kDigestWarps)
    DigestKernel(Xxh3Secret secret, const uint8_t* bytes, uint64_t size, uint64_t* digests) {
  const uint64_t chunk = uint64_t{blockIdx.x} * kDigestWarps + threadIdx.x / 32;
  const uint64_t begin = chunk * kXxh3ChunkBytes;
  if (begin >= size) return;  // whole warps: the others' shuffles are not missed
  const uint64_t length = min(kXxh3ChunkBytes, size - begin);
  const Xxh3Plan plan(length);
  const uint32_t lane = threadIdx.x % 32;
  const Xxh3Thread thread(secret, lane);
  Xxh3Lanes acc = thread.Start();
  const uint8_t* from = bytes + begin + lane * 16;
  // Unrolled, so that the loads of 4 blocks are under way at once.
#pragma unroll 4
  for (uint32_t block = 0; block < plan.blocks; ++block) {
    Pack<uint64_t, 2> data[kXxh3Halves];
    for (uint32_t half = 0; half < kXxh3Halves; ++half) {
      data[half] = Load<Word>(from + block * kXxh3BlockBytes + half * 512);
    }
    acc.Add(SumOverStripes(thread.Part(data)));
    acc.Scramble(thread.scramble_secret);
  }
  acc.Add(SumOverStripes(thread.LastPart(plan, bytes + begin, Load<Word>, LoadXxh3Data<uint8_t>)));
  const uint64_t low = Xxh3Thread::Finished(SumOverPairs(thread.Merged(secret, acc, 0)), 0, length);
  const uint64_t high =
      Xxh3Thread::Finished(SumOverPairs(thread.Merged(secret, acc, 1)), 1, length);
  if (lane == 0) {
    digests[2 * chunk] = SwapBytes(high);
    digests[2 * chunk + 1] = SwapBytes(low);
  }
}

template <typename Word>
DeviceCode Launch(DeviceSpan<const uint8_t> bytes, uint64_t* digests, DeviceStream stream) {
  const uint64_t warps = CeilDiv(bytes.size, kXxh3ChunkBytes);
  return LaunchOn(stream, static_cast<uint32_t>(CeilDiv(warps, kDigestWarps)), 32 * kDigestWarps,
                  DigestKernel<Word>, Xxh3Secret{}, bytes.data, bytes.size, digests);
}

}  // namespace

DeviceCode ChunkDigestsCuda(DeviceSpan<const uint8_t> bytes, DeviceSpan<uint8_t> digests,
                            DeviceStream stream) {
  const uint64_t chunks = CeilDiv(bytes.size, kXxh3ChunkBytes);
  const uint64_t rest = bytes.size % kXxh3ChunkBytes;
  if ((rest != 0 && rest < kXxh3ShortestChunk) || digests.size != 16 * chunks ||
      reinterpret_cast<uintptr_t>(digests.data) % 8 != 0 ||
      CeilDiv(chunks, kDigestWarps) > kMaxGridBlocks) {
    return cudaErrorInvalidValue;
  }
  if (chunks == 0) return cudaSuccess;
  uint64_t* out = reinterpret_cast<uint64_t*>(digests.data);
  const auto from = reinterpret_cast<uintptr_t>(bytes.data);
  if (from % 16 == 0) return Launch<Aligned16>(bytes, out, stream);
  if (from % 4 == 0) return Launch<uint32_t>(bytes, out, stream);
  if (from % 2 == 0) return Launch<uint16_t>(bytes, out, stream);
  return Launch<uint8_t>(bytes, out, stream);
}

}  // namespace pulse::kernels
