// How an object of the file store lies in its folder: names that are no keys, and what its etag is.
#pragma once

#include <string>
#include <string_view>

#include "store/filesystem.h"
#include "store/store.h"

namespace pulse {

// Names that start so are never keys (see CheckKey).
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";
// Held while an object of the folder is exchanged or removed. A Delete removes it again.
inline constexpr std::string_view kLockName = ".tmp.lock";

// Objects up to this size have their contents for an etag: heads and manifests are smaller, and
// reading so little costs about as much as opening it.
inline constexpr uint64_t kHashedBytes = uint64_t{64} << 10;

// kPermissionDenied if a part of the path of `key` (an object, or a folder) below `root` is a
// symlink: a key must not lead out of the root. (Against mistakes: who may write to the folder may
// do worse.)
Status RefuseSymlinks(Filesystem& fs, const std::string& root, std::string_view key);

// Whether the file system seems to keep its times in milliseconds or worse. One file in a million
// looks like this by chance; its etag then merely costs a read.
bool HasCoarseTime(const DirectoryEntry& entry);

// Size, time and etag of an open file. Equal etags mean equal contents:
//   up to kHashedBytes   XXH3-128 of the contents: holds whatever the file system does with its
//   times
//                        and inodes, and a head that never repeats a value never repeats an etag;
//   above                inode, time and size, so that Stat need not read gigabytes. Files are
//   never
//                        changed in place, and each has a time of its own to the nanosecond
//                        (WritableFile::Sync), so a used-again inode shows;
//   above, but the file system keeps no sub-millisecond times: the digest of the contents again.
StatusOr<ObjectInfo> DescribeFile(std::string_view key, const ReadableFile& file);

}  // namespace pulse
