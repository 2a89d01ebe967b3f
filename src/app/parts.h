// Names in a configuration or on the command line -> concrete parts. The only place that knows
// which store, trainer or communicator stands behind a word.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/config.h"
#include "core/clock.h"
#include "core/status.h"
#include "kernels/adamw/adamw.h"
#include "store/filesystem.h"
#include "store/store.h"
#include "sync/signature.h"
#include "trainer/trainer.h"

namespace pulse {

enum class BucketAccess {
  kExisting,  // kNotFound if it is not there
  kCreate,    // make it if it is not there
};

// "file:///absolute/path", a plain path, or what store/remote/remote_store.h opens: s3, hf, http,
// https; those are neither made nor looked for here. Both references must outlive the store.
StatusOr<std::unique_ptr<Store>> OpenBucket(std::string_view uri, BucketAccess access,
                                            Filesystem& fs, Clock& clock);

// An Ed25519 key in a PEM file: a private one to sign with, and a public one as 64 hexadecimal
// digits. An empty path gives none.
StatusOr<std::shared_ptr<const SigningKey>> ReadSigningKey(Filesystem& fs, const std::string& path);
StatusOr<std::string> ReadTrustedKey(Filesystem& fs, const std::string& path);

// The local optimizer's options.
kernels::AdamWOptions AdamWOf(const RunConfig& config);

// progress: called during a long start (the warm start) with steps done and in all.
StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const RunConfig& config,
                                               std::function<void(uint64_t, uint64_t)> progress);

}  // namespace pulse
