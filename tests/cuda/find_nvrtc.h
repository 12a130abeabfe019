// The real NVRTC, which needs no GPU.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

// The NVRTC that ./dev cuda has fetched, unless another is named: of Toolkit 13, or with RILL_TEST_NVRTC=cuda12 an old one.
inline void find_nvrtc() {
  namespace fs = std::filesystem;
  const char *root = std::getenv("RILL_SOURCE_ROOT"), *which = std::getenv("RILL_TEST_NVRTC");
  const fs::path wheels = fs::path(root ? root : ".") / ".deps" / (which ? which : "cuda") / "lib";
  if (!fs::exists(wheels)) return;
  for (const auto& file : fs::recursive_directory_iterator(wheels))
    if (const std::string name = file.path().filename(); name.starts_with("libnvrtc.so."))
      setenv("RILL_NVRTC", file.path().c_str(), 0);
}
