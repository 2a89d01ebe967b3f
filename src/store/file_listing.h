// Walks the folders of a file store in the order of keys.
#pragma once

#include <string>

#include "store/filesystem.h"
#include "store/listing.h"

namespace pulse {

// Offers `page` the objects below `root` that it wants, without etags, until it is full. What is no
// object is passed over: temporaries, symlinks, names that are no keys, empty folders. What is put
// or removed meanwhile may be seen or not. kNotFound if there is no root.
Status ListFiles(Filesystem& fs, const std::string& root, PageBuilder& page);

}  // namespace pulse
