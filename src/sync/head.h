// The head of a run: the one object that is ever replaced. It names the newest version and the
// epoch of the publisher that may write the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/status.h"
#include "store/store.h"
#include "sync/version.h"

namespace pulse {

inline constexpr uint64_t kMaxHeadBytes = 4096;  // a real one has about 600

struct Head {
  std::string run;
  uint64_t epoch = 0;                 // the present publisher's; at least version->id.epoch
  std::string publisher;              // drawn when the epoch was taken over: who may continue it
  std::string nonce;                  // of this very write; no two heads of a run are equal
  std::optional<VersionRef> version;  // none before the first
  friend bool operator==(const Head&, const Head&) = default;
};

// Canonical JSON with the SHA-256 of itself; docs/format.md lists the fields.
std::string SerializeHead(const Head& head);

// kDataLoss for anything but the exact bytes that SerializeHead writes for some head of `run`.
StatusOr<Head> ParseHead(ByteView bytes, std::string_view run);

// A head as it was read, with what a conditional put needs.
struct HeadAt {
  Head head;
  std::string etag;
};

// kNotFound if the run has no head.
StatusOr<HeadAt> ReadHead(Store& store, const std::string& run);

// Puts `next` in the place of `current` (nullopt: the run has no head yet) and tells who won,
// whatever the store answered: after a refusal or a lost answer the head is read again, and
// next.nonce decides. With conditional == false (a store that can't) the current head is only
// compared before the put. kAborted: another publisher won; kUnavailable, kDeadlineExceeded: the
// outcome is unknown.
StatusOr<HeadAt> SwapHead(Store& store, const std::optional<HeadAt>& current, const Head& next,
                          bool conditional);

}  // namespace pulse
