#include "inference_bridge/engine.h"

#include <gmock/gmock.h>

#include "inference_bridge/fake_engine.h"

namespace pulse {
namespace {

using testing::ElementsAre;

EngineUpdate Update(uint64_t number) {
  return {VersionId{1, number, ""}, Digest(), "/host/current.safetensors", EngineUpdateKind::kFile};
}

TEST(Engine, IsPausedOnlyForTheSwap) {
  FakeEngine engine;
  ASSERT_TRUE(engine.Notify(Update(3)).ok());
  ASSERT_TRUE(engine.Notify(Update(4)).ok());
  EXPECT_THAT(engine.calls(),
              ElementsAre("pause", "swap 3", "resume", "pause", "swap 4", "resume"));
  EXPECT_EQ(engine.updates()[1].path, "/host/current.safetensors");
}

TEST(Engine, IsResumedThoughTheSwapFails) {
  FakeEngine engine;
  engine.FailNext("swap", Unavailable("connection refused"));
  const Status status = engine.Notify(Update(3));
  EXPECT_EQ(status, Unavailable("engine fake, version 3: connection refused"));
  EXPECT_THAT(engine.calls(), ElementsAre("pause", "swap 3", "resume"));
  EXPECT_FALSE(engine.paused());
}

TEST(Engine, IsNotSwappedWhenItDoesNotPause) {
  FakeEngine engine;
  engine.FailNext("pause", Unavailable("connection refused"));
  const Status status = engine.Notify(Update(3));
  EXPECT_EQ(status, Unavailable("engine fake, version 3, pausing: connection refused"));
  EXPECT_THAT(engine.calls(), ElementsAre("pause"));
}

TEST(Engine, SaysSoWhenItCanNotBeResumed) {
  FakeEngine engine;
  engine.FailNext("resume", Unavailable("connection reset"));
  EXPECT_EQ(engine.Notify(Update(3)),
            Unavailable("engine fake, version 3, resuming: connection reset"));
}

TEST(Engine, NoneTakesEverything) {
  NoEngine engine;
  EXPECT_TRUE(engine.Notify(Update(3)).ok());
  EXPECT_EQ(engine.name(), "none");
}

}  // namespace
}  // namespace pulse
