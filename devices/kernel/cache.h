// Compiled kernels on disk: $XDG_CACHE_HOME/rill or ~/.cache/rill (RILL_CACHE_DIR overrides it), one file a kernel. A
// file is written beside its place and renamed into it, so that several processes may share a folder and any may be
// killed; what is damaged, cut short or somebody else's counts as absent and is written again. Beyond a size the
// files least recently used go.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill::kernel {

class DiskCache {
 public:
  // In `folder`, made on first writing; "" keeps nothing.
  explicit DiskCache(std::string folder, int64_t most_bytes = 256 << 20);
  // The folder that the environment names, "" where there is none.
  static std::string default_folder();

  // What was stored for this very key, or "". Never throws: a cache that does not work is a cache that is empty.
  std::string find(std::string_view key) const;
  void store(std::string_view key, std::string_view value);
  std::string path_of(std::string_view key) const;

 private:
  void trim() const;
  std::string folder_;
  int64_t most_bytes_;
  int64_t written_ = -1;  // since the folder's size was last looked at; -1: never
};

}  // namespace rill::kernel

#pragma GCC visibility pop
