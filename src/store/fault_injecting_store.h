// A store whose every call passes a FaultInjector.
#pragma once

#include <memory>

#include "store/fault_injector.h"
#include "store/store.h"

namespace pulse {

// Operations: all methods of Store but uri(), named "store.Put". base and injector must outlive it.
std::unique_ptr<Store> MakeFaultInjectingStore(Store& base, FaultInjector& injector);

}  // namespace pulse
