// The true NVRTC, which needs no GPU.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

// The NVRTC that ./dev cuda has fetched, unless another is named.
inline void find_nvrtc() {
  namespace fs = std::filesystem;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const fs::path wheels = fs::path(root ? root : ".") / ".deps/cuda/lib";
  if (!fs::exists(wheels)) return;
  for (const auto& file : fs::recursive_directory_iterator(wheels))
    if (const std::string name = file.path().filename(); name.starts_with("libnvrtc.so."))
      setenv("RILL_NVRTC", file.path().c_str(), 0);
}
