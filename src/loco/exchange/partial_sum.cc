#include "loco/exchange/partial_sum.h"

#include <algorithm>

#include "codec/updates_reader.h"
#include "loco/exchange/contribution.h"

namespace pulse::loco {
namespace {

constexpr uint8_t kDense = 0, kSparse = 1;

// An entry takes at least its gap's byte and, of a sum's value, most of four: above this share of
// elements, packing is time lost.
constexpr double kSparseBelow = 0.8;

}  // namespace

Bytes EncodePartialSum(const PayloadCoding& coding, uint64_t begin, std::span<const float> sum) {
  Bytes out;
  if (sum.empty()) return out;
  if (static_cast<double>(CountNonZero(sum)) < kSparseBelow * static_cast<double>(sum.size())) {
    out = coding.codec.Encode(coding.kernels, SparseFromNonZero(sum),
                              coding.ThetaOf(begin, begin + sum.size()), coding.classes);
    out.push_back(kSparse);
    if (out.size() <= sum.size_bytes()) return out;
  }
  const ByteView dense = AsBytes(sum);
  out.assign(dense.begin(), dense.end());
  out.push_back(kDense);
  return out;
}

Status DecodePartialSum(const PayloadCoding& coding, uint64_t begin, ByteView bytes,
                        std::span<float> sum) {
  if (sum.empty()) {
    return bytes.empty() ? OkStatus()
                         : DataLoss("{} bytes of a sum over no elements", bytes.size());
  }
  if (bytes.empty()) return DataLoss("no bytes of a sum over {} elements", sum.size());
  const ByteView body = bytes.first(bytes.size() - 1);
  if (bytes.back() == kSparse) {
    UpdatesReader reader(coding.kernels, coding.codec, sum.size(),
                         coding.ThetaOf(begin, begin + sum.size()), coding.classes);
    PULSE_RETURN_IF_ERROR(reader.Add(body).status());
    for (uint64_t b = 0; b < reader.blocks(); ++b) {
      const std::span<float> rest = sum.subspan(b * kSparseBlockElements);
      const std::span<float> block =
          rest.first(std::min<uint64_t>(rest.size(), kSparseBlockElements));
      PULSE_ASSIGN_OR_RETURN(const SparseEntries entries, reader.Read(0, b));
      std::fill(block.begin(), block.end(), 0.0f);
      for (size_t i = 0; i < entries.positions.size(); ++i) {
        block[entries.positions[i]] = entries.values[i];
      }
    }
    return OkStatus();
  }
  if (bytes.back() != kDense || body.size() != sum.size_bytes()) {
    return DataLoss("a sum over {} elements in {} bytes of form {}", sum.size(), body.size(),
                    bytes.back());
  }
  std::memcpy(sum.data(), body.data(), body.size());
  return OkStatus();
}

}  // namespace pulse::loco
