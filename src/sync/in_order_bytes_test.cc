#include "sync/in_order_bytes.h"

#include <gtest/gtest.h>

#include <set>

namespace pulse {
namespace {

TEST(ProduceBytesInOrder, HandsOverEveryPieceInOrder) {
  const Bytes elsewhere = {1, 2, 3};
  for (const int threads : {1, 2, 7}) {
    size_t next = 0;
    const Status status = ProduceBytesInOrder(
        500, threads,
        [&](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
          if (i % 3 == 0) return ByteView(elsewhere);
          scratch.assign(1 + i % 50, static_cast<uint8_t>(i));
          return ByteView(scratch);
        },
        [&](size_t i, ByteView piece) {
          EXPECT_EQ(i, next++);
          const Bytes expected =
              i % 3 == 0 ? elsewhere : Bytes(1 + i % 50, static_cast<uint8_t>(i));
          EXPECT_EQ(Bytes(piece.begin(), piece.end()), expected);
          return OkStatus();
        });
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(next, 500u);
  }
}

TEST(ProduceBytesInOrder, UsesItsBuffersAgain) {
  for (const size_t threads : {1, 3}) {
    std::mutex mutex;
    std::set<const uint8_t*> buffers;
    ASSERT_TRUE(ProduceBytesInOrder(
                    1000, static_cast<int>(threads),
                    [&](size_t, Bytes& scratch) -> StatusOr<ByteView> {
                      scratch.resize(4096);
                      const std::lock_guard lock(mutex);
                      buffers.insert(scratch.data());
                      return ByteView(scratch);
                    },
                    [](size_t, ByteView) { return OkStatus(); })
                    .ok());
    EXPECT_LE(buffers.size(), 2 * threads + 1);
  }
}

TEST(ProduceBytesInOrder, ReturnsTheFirstErrorInOrder) {
  for (const int threads : {1, 4}) {
    const Status status = ProduceBytesInOrder(
        100, threads,
        [](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
          if (i >= 7) return DataLoss("piece {}", i);
          return ByteView(scratch);
        },
        [](size_t i, ByteView) { return i > 8 ? Internal("too far") : OkStatus(); });
    EXPECT_EQ(status, DataLoss("piece 7"));
  }
}

}  // namespace
}  // namespace pulse
