#include "inference_bridge/fetch.h"

#include <algorithm>
#include <optional>

#include "core/sha256.h"
#include "sync/byte_sources.h"
#include "sync/in_order_bytes.h"

namespace pulse {
namespace {

// One object on its way in: to memory, or to a file that loses its name as soon as it is mapped.
class Landing {
 public:
  Landing(Filesystem& fs, const FetchItem& item) : fs_(fs), item_(item) {}
  ~Landing() {
    if (file_ != nullptr) fs_.Remove(path_).IgnoreError();
  }

  // in_memory: of item.bytes, which the caller has accounted for. Else in the first free file of
  // that name and a number: a file of an earlier attempt may still be there.
  Status Begin(bool in_memory, const std::string& spool_path) {
    if (in_memory) {
      memory_.reserve(item_.bytes);
      return OkStatus();
    }
    for (uint64_t number = 0;; ++number) {
      path_ = fmt::format("{}{}", spool_path, number);
      auto file = fs_.Create(path_);
      if (absl::IsAlreadyExists(file.status())) continue;
      PULSE_ASSIGN_OR_RETURN(file_, std::move(file));
      return OkStatus();
    }
  }

  Status Append(ByteView bytes) {
    hash_.Update(bytes);
    if (file_ != nullptr) return file_->Append(bytes);
    memory_.insert(memory_.end(), bytes.begin(), bytes.end());
    return OkStatus();
  }

  // After all bytes.
  Status Verify(const Store& store) {
    const std::string sha256 = hash_.Hex();
    if (sha256 == item_.sha256) return OkStatus();
    return DataLoss("{}: object \"{}\" has the SHA-256 {}, its manifest says {}", store.uri(),
                    item_.key, sha256, item_.sha256);
  }

  StatusOr<std::shared_ptr<const ByteSource>> Finish() {
    if (file_ == nullptr) return std::make_shared<OwnedSource>(std::move(memory_));
    PULSE_RETURN_IF_ERROR(file_->Close());
    PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> mapped,
                           MappedSource::Open(fs_, path_));
    file_.reset();
    PULSE_RETURN_IF_ERROR(fs_.Remove(path_));
    return mapped;
  }

 private:
  Filesystem& fs_;
  const FetchItem& item_;
  std::string path_;
  Sha256 hash_;
  Bytes memory_;
  std::unique_ptr<WritableFile> file_;
};

struct Piece {
  size_t item;
  uint64_t begin;
  uint64_t bytes;
  bool last;
};

std::vector<Piece> CutIntoPieces(const std::vector<FetchItem>& items, uint64_t piece_bytes) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < items.size(); ++i) {
    uint64_t begin = 0;
    do {
      const uint64_t bytes = std::min(piece_bytes, items[i].bytes - begin);
      pieces.push_back({i, begin, bytes, begin + bytes == items[i].bytes});
      begin += bytes;
    } while (begin < items[i].bytes);
  }
  return pieces;
}

}  // namespace

Fetched FetchObjects(Store& store, Filesystem& fs, const std::vector<FetchItem>& items,
                     const FetchOptions& options) {
  Fetched fetched;
  const std::vector<Piece> pieces =
      CutIntoPieces(items, std::max<uint64_t>(1, options.piece_bytes));
  uint64_t memory_left = options.memory_bytes, done = 0;
  std::optional<Landing> landing;
  size_t next = 0;    // the piece to be taken next
  bool ours = false;  // an error now is the disk's or the caller's, not the object's

  const auto read = [&](size_t i, Bytes& scratch) -> StatusOr<ByteView> {
    scratch.resize(pieces[i].bytes);
    if (scratch.empty()) return ByteView();
    PULSE_RETURN_IF_ERROR(store.ReadAt(items[pieces[i].item].key, pieces[i].begin, scratch));
    return ByteView(scratch);
  };
  const auto take = [&](size_t i, ByteView bytes) -> Status {
    const FetchItem& item = items[pieces[i].item];
    ours = true;
    if (pieces[i].begin == 0) {
      landing.emplace(fs, item);
      const bool in_memory = item.bytes <= memory_left;
      if (in_memory) memory_left -= item.bytes;
      PULSE_RETURN_IF_ERROR(landing->Begin(in_memory, options.spool_path));
    }
    PULSE_RETURN_IF_ERROR(landing->Append(bytes));
    done += bytes.size();
    if (options.on_bytes) PULSE_RETURN_IF_ERROR(options.on_bytes(done));
    ours = false;
    if (pieces[i].last) {
      PULSE_RETURN_IF_ERROR(landing->Verify(store));
      ours = true;
      PULSE_ASSIGN_OR_RETURN(auto source, landing->Finish());
      fetched.sources.push_back(std::move(source));
      landing.reset();
      ours = false;
    }
    next = i + 1;
    return OkStatus();
  };

  fetched.status = ProduceBytesInOrder(pieces.size(), options.parallel, read, take);
  if (!fetched.status.ok()) {
    if (!ours) fetched.failed_key = items[pieces[next].item].key;
    fetched.sources.clear();
  }
  return fetched;
}

}  // namespace pulse
