// Compiled kernels on disk: $XDG_CACHE_HOME/rill or ~/.cache/rill (RILL_CACHE_DIR overrides it), one file for each
// kernel. A file is written under a temporary name and renamed, so that several processes may share a folder and any
// may be killed; files that are damaged, truncated or owned by somebody else are ignored and written again. Beyond a
// size limit the least recently used files are removed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill::kernel {

class DiskCache {
 public:
  // In `folder`, created when something is first stored; "" disables the cache.
  explicit DiskCache(std::string folder, int64_t most_bytes = 256 << 20);
  // The folder that the environment names, "" if there is none.
  static std::string default_folder();

  // What was stored for exactly this key, or "". Never throws: a cache that fails is an empty one.
  std::string find(std::string_view key) const;
  void store(std::string_view key, std::string_view value);
  std::string path_of(std::string_view key) const;

 private:
  void trim() const;
  std::string folder_;
  int64_t most_bytes_;
  int64_t written_ = -1;  // bytes since the folder's size was last measured; -1: never
};

}  // namespace rill::kernel

#pragma GCC visibility pop
