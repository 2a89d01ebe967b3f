// The change of an array of words between two states of it in device memory <-> bytes on the host,
// in the codecs of word deltas: only encoded bytes (before zstd, in codec fast) cross the bus, and
// they are those of codec/word_delta.h and codec/small_delta.h.
#pragma once

#include <vector>

#include "codec/container.h"
#include "codec/word_delta.h"
#include "core/dtype.h"
#include "device/work.h"
#include "kernels/device_kernels.h"

namespace pulse {

// BF16 and F32 words. Scratch grows to what the largest call needed: 4 bytes a word of a range, and
// the coding's own. Not thread-safe. work and kernels must outlive it.
class DeviceDeltaCoder {
 public:
  // range_blocks: blocks of 2^20 words that are compared and encoded at a time.
  DeviceDeltaCoder(DeviceWork& work, const kernels::DeviceKernels& kernels,
                   uint64_t range_blocks = 256)
      : work_(work), kernels_(kernels), range_blocks_(range_blocks) {}

  // codec: kWordDeltaFast or kWordDeltaSmall. before, after: equal lengths, a multiple of the word.
  // The array is cut into pieces of piece_blocks blocks; each is a WordDelta of its own, as the
  // host's encoder makes of it. kUnimplemented for words other than BF16 and F32.
  StatusOr<std::vector<WordDelta>> Encode(CodecId codec, DType dtype,
                                          DeviceSpan<const uint8_t> before,
                                          DeviceSpan<const uint8_t> after, uint64_t piece_blocks,
                                          Deadline deadline);

  // Moves `words` from before the change to after it. kDataLoss for any bytes that no encoder
  // writes for these words; then they are unspecified. Waits until it is done.
  Status Apply(CodecId codec, DType dtype, ByteView delta, DeviceSpan<uint8_t> words,
               Deadline deadline);

 private:
  template <typename Word>
  Status EncodeRange(CodecId codec, DType dtype, DeviceSpan<const Word> before,
                     DeviceSpan<const Word> after, uint64_t piece_blocks,
                     std::vector<WordDelta>& out, Deadline deadline);
  template <typename Word>
  StatusOr<std::vector<Bytes>> SmallPayloads(DType dtype, DeviceSpan<const Word> before,
                                             DeviceSpan<const Word> after,
                                             std::span<const uint64_t> starts, Deadline deadline);
  template <typename Word>
  StatusOr<std::vector<Bytes>> FastPayloads(DeviceSpan<const Word> before,
                                            DeviceSpan<const Word> after,
                                            std::span<const uint64_t> starts, Deadline deadline);
  template <typename Word>
  Status ApplyWords(CodecId codec, DType dtype, ByteView delta, DeviceSpan<Word> words,
                    Deadline deadline);
  // Bytes at `offsets` of a device buffer, block by block.
  StatusOr<std::vector<Bytes>> Download(DeviceSpan<const uint8_t> from,
                                        std::span<const uint64_t> offsets, Deadline deadline);

  DeviceWork& work_;
  const kernels::DeviceKernels& kernels_;
  uint64_t range_blocks_;
  DeviceRoom starts_, positions_, compact_, scratch_, streams_, sizes_, offsets_, out_, entries_,
      errors_;
};

}  // namespace pulse
