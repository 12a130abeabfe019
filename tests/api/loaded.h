// Which of rill's shared libraries this process has opened: what a program does not need is not loaded.
#pragma once
#include <fstream>
#include <string>

// The path of a library that this process has loaded, or "".
inline std::string loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const size_t at = line.find('/'); at != line.npos && line.find(library) != line.npos) return line.substr(at);
  return "";
}
