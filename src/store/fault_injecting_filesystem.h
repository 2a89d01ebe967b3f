// A file system whose every call, and every call on its open files, passes a FaultInjector.
#pragma once

#include <memory>

#include "store/fault_injector.h"
#include "store/filesystem.h"

namespace pulse {

// Operations: all methods of Filesystem ("fs.Rename"), and Append, Sync, Close, ReadAt, Map of
// files
// ("file.Sync"). Not counted: size(), entry(), and letting go of locks and files, which a death
// does too. base and injector must outlive it and its files.
std::unique_ptr<Filesystem> MakeFaultInjectingFilesystem(Filesystem& base, FaultInjector& injector);

}  // namespace pulse
