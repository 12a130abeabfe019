// Files in tests/golden with expected results; RILL_UPDATE_GOLDEN=1 writes them anew.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.h"

namespace golden {

inline std::filesystem::path folder() {
  if (const char* root = std::getenv("RILL_SOURCE_ROOT")) return std::filesystem::path(root) / "tests/golden";
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../tests/golden";  // build/tests/test_*
}

// Compares a text with that of a file, or writes it.
inline void check(const std::string& name, const std::string& text) {
  const std::filesystem::path path = folder() / name;
  if (const char* update = std::getenv("RILL_UPDATE_GOLDEN"); update && *update) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream wanted;
  wanted << file.rdbuf();
  INFO(path << "; RILL_UPDATE_GOLDEN=1 writes it anew");
  CHECK(text == wanted.str());
}

}  // namespace golden
