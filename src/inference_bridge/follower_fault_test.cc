// What a follower does about buckets and outputs that are not what they should be.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "inference_bridge/follow_test_world.h"
#include "inference_bridge/follower.h"
#include "store/fault_injecting_filesystem.h"
#include "store/fault_injecting_store.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr char kOut[] = "/host/current.safetensors";

std::string Message(const Status& status) {
  return std::string(ToStd(status.message()));
}

class FollowerFaultTest : public ::testing::Test {
 protected:
  StatusOr<FollowResult> FollowOnce(FollowTarget target = {}) {
    PULSE_ASSIGN_OR_RETURN(const auto follower, machine_.Open(*store_));
    return follower->Step(target);
  }
  uint64_t InPlace() { return VersionAt(machine_.fs, kOut, publisher_); }
  Bytes Output() { return *ReadFile(machine_.fs, kOut, 1 << 20); }
  uint64_t OutputId() { return machine_.fs.Stat(kOut)->file_id; }
  // As somebody does who knows nothing of followers.
  void Overwrite(ByteView bytes) {
    ASSERT_TRUE(WriteFileAtomically(machine_.fs, kOut, bytes).ok());
  }
  void WriteCheckpointAtOutput(const Bytes& weights, std::map<std::string, std::string> metadata) {
    const ModelViewSource view(SplitContiguous(publisher_.schema(), weights));
    ASSERT_TRUE(WriteCheckpoint(machine_.fs, kOut, view, {.metadata = std::move(metadata)}).ok());
  }
  Bytes Get(const std::string& key) { return store_->Get(key, 1 << 20)->bytes; }
  void Flip(const std::string& key, size_t byte) {
    Bytes bytes = Get(key);
    bytes[byte] ^= 0x10;
    PutObject(*store_, key, bytes);
  }

  VirtualClock clock_;
  std::unique_ptr<Store> store_ = MakeMemoryStore(clock_);
  TestPublisher publisher_{*store_, clock_};
  TestMachine machine_{clock_};
};

TEST_F(FollowerFaultTest, OneFollowerWorksOnAnOutputAtATime) {
  publisher_.Publish();
  auto first = *machine_.Open(*store_);
  ASSERT_TRUE(first->Step().ok());
  const Status status = machine_.Open(*store_).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(fmt::format("another follower (pid {} on", ::getpid())));
  EXPECT_THAT(Message(status), HasSubstr(kOut));
  const auto other = machine_.Open(*store_, machine_.Options("/host/other.safetensors"));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE((*other)->Step().ok());
  first.reset();
  EXPECT_TRUE(FollowOnce().ok());
}

// Retention removes versions 1 and 2 at each moment of a step from 1 to 4.
TEST_F(FollowerFaultTest, ARaceWithRetentionStartsAgainFromTheHead) {
  publisher_.Publish();
  publisher_.Publish();
  publisher_.Publish(true);
  publisher_.Publish();
  const auto before = Snapshot(*store_);
  bool lost_a_race = false;
  for (uint64_t moment = 0; moment < 15; ++moment) {
    Restore(*store_, before);
    TestMachine machine(clock_);
    ASSERT_TRUE((*machine.Open(*store_))->Step(FollowTarget::Number(1)).ok());
    Fault fault;
    fault.operation = moment;
    fault.action = Fault::Action::kCall;
    fault.call = [&] {
      Forget(*store_, publisher_, 2);
      Forget(*store_, publisher_, 1);
    };
    FaultInjector injector(clock_, {fault});
    const auto store = MakeFaultInjectingStore(*store_, injector);
    const auto result = (*machine.Open(*store))->Step();
    ASSERT_TRUE(result.ok()) << result.status() << "\n" << injector.Log();
    EXPECT_EQ(result->digest, publisher_.digest(4));
    EXPECT_EQ(VersionAt(machine.fs, kOut, publisher_), 4u);
    const bool wanted_two =
        injector.Log().find("store.ReadAt " + publisher_.Key(2, PayloadRole::kDelta)) !=
        std::string::npos;
    lost_a_race = lost_a_race || (wanted_two && result->from_anchor);
  }
  EXPECT_TRUE(lost_a_race);
}

TEST_F(FollowerFaultTest, BehindRetentionItStartsFromAnAnchor) {
  publisher_.Publish();
  auto every = *machine_.Open(*store_);
  ASSERT_TRUE(every->Step(FollowTarget::Next()).ok());
  for (int i = 0; i < 5; ++i) publisher_.Publish(i == 2);
  for (const uint64_t number : {3, 2, 1}) Forget(*store_, publisher_, number);
  // Version 4 has an anchor; 2 and 3 are lost for good, and every version from 4 on comes.
  for (const uint64_t expected : {4, 5, 6}) {
    const auto result = every->Step(FollowTarget::Next());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->version.id.number, expected);
    EXPECT_EQ(result->from_anchor, expected == 4);
    EXPECT_EQ(InPlace(), expected);
  }
}

TEST_F(FollowerFaultTest, AMissingObjectIsDamageAndNoRace) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  ASSERT_TRUE(store_->Delete(publisher_.Key(2, PayloadRole::kDelta)).ok());
  const Status status = FollowOnce().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(publisher_.Key(2, PayloadRole::kDelta)));
  EXPECT_EQ(InPlace(), 1u);
}

TEST_F(FollowerFaultTest, EveryFlippedByteOfAPayloadIsRefused) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  const Bytes old = Output();
  const uint64_t old_id = OutputId();
  for (const std::string& key : {publisher_.Key(2, PayloadRole::kDelta),
                                 ManifestKey("main", publisher_.id(2)), HeadKey("main")}) {
    const Bytes sound = Get(key);
    for (size_t byte = 0; byte < sound.size(); byte += 7) {
      Flip(key, byte);
      const Status status = FollowOnce().status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << key << " byte " << byte << ": " << status;
      EXPECT_EQ(Message(status).find('\n'), std::string::npos) << status;
      PutObject(*store_, key, sound);
    }
    for (const size_t size : {size_t{0}, size_t{1}, sound.size() / 2, sound.size() - 1}) {
      PutObject(*store_, key, ByteView(sound).first(size));
      EXPECT_TRUE(absl::IsDataLoss(FollowOnce().status())) << key << " of " << size << " bytes";
    }
    PutObject(*store_, key, sound);
    EXPECT_EQ(Output(), old);
    EXPECT_EQ(OutputId(), old_id);
  }
  EXPECT_TRUE(FollowOnce().ok());
  EXPECT_EQ(InPlace(), 2u);
}

TEST_F(FollowerFaultTest, ASwappedObjectIsRefused) {
  for (int i = 0; i < 3; ++i) publisher_.Publish();
  ASSERT_TRUE(FollowOnce(FollowTarget::Number(1)).ok());
  PutObject(*store_, publisher_.Key(3, PayloadRole::kDelta),
            Get(publisher_.Key(2, PayloadRole::kDelta)));
  const Status status = FollowOnce().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(publisher_.Key(3, PayloadRole::kDelta)));
  EXPECT_EQ(InPlace(), 1u);
  EXPECT_TRUE(FollowOnce(FollowTarget::Number(2)).ok());
}

TEST_F(FollowerFaultTest, GoesRoundADamagedDeltaWhereAnAnchorStandsBehindIt) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  publisher_.Publish(true);
  Flip(publisher_.Key(2, PayloadRole::kDelta), 999);
  EXPECT_TRUE(absl::IsDataLoss(FollowOnce(FollowTarget::Number(2)).status()));
  const auto result = FollowOnce();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->from_anchor);
  EXPECT_EQ(InPlace(), 3u);
}

TEST_F(FollowerFaultTest, ARolledBackBucketIsRefused) {
  for (int i = 0; i < 3; ++i) publisher_.Publish();
  const auto old = Snapshot(*store_);
  publisher_.Publish();
  publisher_.Publish();
  auto follower = *machine_.Open(*store_);
  ASSERT_TRUE(follower->Step().ok());
  Restore(*store_, old);
  const Status running = follower->Step().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(running)) << running;
  EXPECT_THAT(Message(running), HasSubstr("current.safetensors.state"));
  follower.reset();
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowOnce().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowOnce(FollowTarget::Next()).status()));
  EXPECT_EQ(InPlace(), 5u);
  // Without the file the state remembers, and without the state the file does.
  const Bytes output = Output();
  ASSERT_TRUE(machine_.fs.Remove(kOut).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowOnce().status()));
  EXPECT_EQ(InPlace(), 0u);
  Overwrite(output);
  ASSERT_TRUE(machine_.fs.Remove(std::string(kOut) + ".state").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowOnce().status()));
  EXPECT_EQ(InPlace(), 5u);
  // Without both it is a new follower.
  ASSERT_TRUE(machine_.fs.Remove(kOut).ok());
  ASSERT_TRUE(machine_.fs.Remove(std::string(kOut) + ".state").ok());
  EXPECT_TRUE(FollowOnce().ok());
  EXPECT_EQ(InPlace(), 3u);
}

TEST_F(FollowerFaultTest, ABucketThatWasRolledBackAndWrittenOnIsRefused) {
  for (int i = 0; i < 3; ++i) publisher_.Publish();
  const auto old = Snapshot(*store_);
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  Restore(*store_, old);
  TestPublisher other(*store_, clock_, /*nonces=*/2);
  other.Publish();  // another version 4
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowOnce().status()));
  other.Publish();
  other.Publish();  // numbers and epochs only grow, but version 4 is not the one we saw
  const Status status = FollowOnce().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(InPlace(), 4u);
}

TEST_F(FollowerFaultTest, ATakeoverByAnotherPublisherIsFollowed) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  TestPublisher other(*store_, clock_, /*nonces=*/2);
  other.Publish();
  const auto result = FollowOnce();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->digest, other.digest(2));
  EXPECT_EQ(VersionAt(machine_.fs, kOut, other), 2u);
}

TEST_F(FollowerFaultTest, ATamperedOutputIsRemovedAndBuiltAnewFromAnAnchor) {
  publisher_.Publish();
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  const Bytes sound = Output();
  for (const size_t from_end : {1, 1000, 20'000, 60'000}) {
    Bytes damaged = sound;
    damaged[damaged.size() - from_end] ^= 1;
    Overwrite(damaged);
    const auto result = FollowOnce();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->changed);
    EXPECT_TRUE(result->from_anchor);
    EXPECT_EQ(Output(), sound);
  }
  // It is not left for readers even where there is nothing to replace it with.
  Bytes damaged = sound;
  damaged.back() ^= 1;
  Overwrite(damaged);
  ASSERT_TRUE(store_->Delete(publisher_.Key(1, PayloadRole::kAnchor)).ok());
  EXPECT_TRUE(absl::IsDataLoss(FollowOnce().status()));
  EXPECT_EQ(InPlace(), 0u);
}

TEST_F(FollowerFaultTest, AnOutputThatIsChangedWhileFollowingIsNoticed) {
  publisher_.Publish();
  auto follower = *machine_.Open(*store_);
  ASSERT_TRUE(follower->Step().ok());
  Bytes damaged = Output();
  damaged.back() ^= 1;
  Overwrite(damaged);
  const auto repaired = follower->Step();
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_TRUE(repaired->changed);
  EXPECT_EQ(InPlace(), 1u);
  ASSERT_TRUE(machine_.fs.Remove(kOut).ok());
  EXPECT_TRUE(follower->Step()->changed);
  EXPECT_EQ(InPlace(), 1u);
}

// Changed in place, and behind its back: the size and the times are as they were.
TEST_F(FollowerFaultTest, ABaseThatIsWrongUnnoticedIsFoundByTheDigestOfWhatIsBuiltOverIt) {
  const std::string folder = ::testing::TempDir() + fmt::format("follower_fault_{}", ::getpid());
  const std::string path = folder + "/current.safetensors";
  const auto posix = MakePosixFilesystem();
  {
    publisher_.Publish();
    const auto follower = *machine_.Open(*store_, *posix, machine_.Options(path));
    ASSERT_TRUE(follower->Step().ok());
    struct stat before;
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, "\x55\xaa\x55", 3, before.st_size - 5000), 3);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::futimens(fd, times), 0);
    ASSERT_EQ(::close(fd), 0);
    publisher_.Publish();
    const auto result = follower->Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->from_anchor);
    EXPECT_EQ(VersionAt(*posix, path, publisher_), 2u);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(FollowerFaultTest, WhateverElseLiesInThePlaceIsReplaced) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  publisher_.Publish();
  const Bytes sound = Output();
  const Bytes& weights = publisher_.history().at(1);
  const auto place = [&](int which) {
    auto metadata =
        FollowMetadata("main", {publisher_.id(2), publisher_.digest(1)});  // claims version 2
    switch (which) {
      case 0:  // a checkpoint of somebody's
        return WriteCheckpointAtOutput(weights, {});
      case 1:  // half a file
        return Overwrite(ByteView(sound).first(sound.size() / 2));
      case 2:  // no checkpoint at all
        return Overwrite(AsBytes("hello"));
      case 3:
        return Overwrite({});
      case 4:  // of another run
        return WriteCheckpointAtOutput(
            weights, FollowMetadata("other", {publisher_.id(1), publisher_.digest(1)}));
      case 5:  // consistent in itself, but not what version 2 is
        return WriteCheckpointAtOutput(weights, metadata);
      case 6:  // the same for a version that never was
        metadata[kFollowVersionKey] = "1.2." + std::string(32, 'f');
        return WriteCheckpointAtOutput(weights, metadata);
      default:
        metadata[kFollowVersionKey] = "not a version";
        return WriteCheckpointAtOutput(weights, metadata);
    }
  };
  for (int which = 0; which < 8; ++which) {
    ASSERT_NO_FATAL_FAILURE(place(which));
    const auto result = FollowOnce();
    ASSERT_TRUE(result.ok()) << which << ": " << result.status();
    EXPECT_EQ(result->version.id, publisher_.id(2));
    EXPECT_EQ(InPlace(), 2u) << which;
  }
}

TEST_F(FollowerFaultTest, AnOutputOfAnotherRunIsRefused) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  FollowerOptions options = machine_.Options();
  options.run = "other";
  const Status status = machine_.Open(*store_, options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("follows run \"main\", not \"other\""));
}

TEST_F(FollowerFaultTest, ADamagedStateIsToldAndNotGuessed) {
  publisher_.Publish();
  ASSERT_TRUE(FollowOnce().ok());
  ASSERT_TRUE(WriteFileAtomically(machine_.fs, std::string(kOut) + ".state", AsBytes("{}")).ok());
  EXPECT_TRUE(absl::IsDataLoss(machine_.Open(*store_).status()));
}

TEST_F(FollowerFaultTest, AFolderInThePlaceIsRefused) {
  ASSERT_TRUE(machine_.fs.CreateDirectories(kOut).ok());
  const Status status = machine_.Open(*store_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(Message(status), HasSubstr("there is a folder in its place"));
  for (const char* path : {"", "/", ".", "/host/.."}) {
    EXPECT_TRUE(absl::IsInvalidArgument(machine_.Open(*store_, machine_.Options(path)).status()))
        << path;
  }
}

TEST_F(FollowerFaultTest, OptionsThatCanNotBeAreRefused) {
  FollowerOptions options = machine_.Options();
  options.threads = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(machine_.Open(*store_, options).status()));
  options = machine_.Options();
  options.parallel_fetches = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(machine_.Open(*store_, options).status()));
  options = machine_.Options();
  options.run = "../other";
  EXPECT_TRUE(absl::IsInvalidArgument(machine_.Open(*store_, options).status()));
}

TEST_F(FollowerFaultTest, LeftoversOfAKilledFollowerAreRemoved) {
  publisher_.Publish();
  ASSERT_TRUE(machine_.fs.CreateDirectories("/host").ok());
  for (const char* name : {"current.safetensors.tmp-1-0", "current.safetensors.state.tmp-1-0",
                           "current.safetensors.spool-3", "current.safetensors.link-new"}) {
    ASSERT_TRUE(WriteFileAtomically(machine_.fs, fmt::format("/host/{}", name), AsBytes("x")).ok());
  }
  ASSERT_TRUE(WriteFileAtomically(machine_.fs, "/host/other", AsBytes("x")).ok());
  ASSERT_TRUE(FollowOnce().ok());
  EXPECT_THAT(NamesIn(machine_.fs, "/host"),
              ::testing::ElementsAre("current.safetensors", "current.safetensors.lock",
                                     "current.safetensors.state", "other"));
}

// Each operation on the output's file system and on the bucket fails once, before it happens or
// after.
class FailingOperationTest : public ::testing::TestWithParam<OutputLayout> {};

TEST_P(FailingOperationTest, LeavesTheOldVersionOrTheNewOneAndTheNextStepGoesOn) {
  VirtualClock clock;
  const auto store = MakeMemoryStore(clock);
  TestPublisher publisher(*store, clock);
  for (int i = 0; i < 3; ++i) publisher.Publish();
  const auto kind = [](Fault::When when, Status status) {
    return [when, status](uint64_t operation) {
      Fault fault;
      fault.operation = operation;
      fault.when = when;
      fault.status = status;
      return fault;
    };
  };
  const Status full = ResourceExhausted("write /host/x: No space left on device");
  const Status denied = PermissionDenied("create /host/x: Permission denied");
  const uint64_t operations = ForEachFault(
      clock,
      {kind(Fault::When::kBefore, full), kind(Fault::When::kBefore, denied),
       kind(Fault::When::kAfter, Unavailable("the answer was lost"))},
      [&](FaultInjector& injector) {
        TestMachine machine(clock);
        FollowerOptions options = machine.Options();
        options.layout = GetParam();
        options.memory_bytes = 0;
        ASSERT_TRUE((*machine.Open(*store, options))->Step(FollowTarget::Number(1)).ok());
        const auto faulty_fs = MakeFaultInjectingFilesystem(machine.fs, injector);
        const auto faulty_store = MakeFaultInjectingStore(*store, injector);
        const std::string at = injector.Plan() + "\n" + injector.Log();
        {
          const auto follower = machine.Open(*faulty_store, *faulty_fs, options);
          const Status first = follower.ok() ? (*follower)->Step().status() : follower.status();
          EXPECT_EQ(Message(first).find('\n'), std::string::npos) << first;
          const uint64_t number = VersionAt(machine.fs, kOut, publisher);
          EXPECT_TRUE(number == 3 || (number == 1 && !first.ok())) << number << first << at;
          if (follower.ok()) {
            const Status second = (*follower)->Step().status();
            EXPECT_TRUE(second.ok() || first.ok()) << second << injector.Log();
            EXPECT_EQ(VersionAt(machine.fs, kOut, publisher), 3u) << injector.Log();
          }
        }
        EXPECT_TRUE((*machine.Open(*store, options))->Step().ok());
        EXPECT_EQ(VersionAt(machine.fs, kOut, publisher), 3u);
        EXPECT_EQ(NamesIn(machine.fs, "/host").size(), GetParam() == OutputLayout::kFile ? 3u : 4u);
      });
  EXPECT_GT(operations, 40u);
}

INSTANTIATE_TEST_SUITE_P(Layout, FailingOperationTest,
                         ::testing::Values(OutputLayout::kFile, OutputLayout::kFolder),
                         [](const auto& about) {
                           return about.param == OutputLayout::kFile ? "File" : "Folder";
                         });

}  // namespace
}  // namespace pulse
