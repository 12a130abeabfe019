// The machine code of a kernel, read from nvdisasm's output: its innermost loops that load from a GPU's memory, where
// a kernel of many points spends its time.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace sass {

struct Loops {
  int count = 0;
  int loads = 0;    // the maximum in one of them
  int local = 0;    // those that use a thread's local memory: arrays, and spilled registers
  int divided = 0;  // those that divide 64-bit integers, by a function call
};

// nvdisasm of ./dev cuda or the CUDA Toolkit; "" if there is none.
inline std::string find_nvdisasm() {
  namespace fs = std::filesystem;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const fs::path wheels = fs::path(root ? root : ".") / ".deps/cuda/lib";
  if (fs::exists(wheels))
    for (const auto& file : fs::recursive_directory_iterator(wheels))
      if (file.is_regular_file() && file.path().filename() == "nvdisasm") return file.path();
  for (const char* file : {"/usr/local/cuda/bin/nvdisasm", "/usr/bin/nvdisasm"})
    if (fs::exists(file)) return file;
  return "";
}

// Of the kernel in a cubin.
inline Loops loops(const std::string& nvdisasm, const std::string& cubin) {
  const auto file = std::filesystem::temp_directory_path() / ("rill-" + std::to_string(getpid()) + ".cubin");
  std::ofstream(file, std::ios::binary) << cubin;
  FILE* pipe = popen(("'" + nvdisasm + "' -c '" + file.string() + "'").c_str(), "r");
  std::vector<std::string> code;
  std::map<std::string, size_t> labels;
  std::array<char, 4096> buffer;
  while (pipe && std::fgets(buffer.data(), buffer.size(), pipe)) {
    const std::string line = buffer.data();
    if (line.starts_with(".L_x_")) labels[line.substr(0, line.find(':'))] = code.size();
    else if (line.find(';') != line.npos && line[line.find_first_not_of(" \t")] == '/')
      code.push_back(line);  // after its address, as in /*0010*/
  }
  if (pipe) pclose(pipe);
  std::filesystem::remove(file);

  std::vector<std::pair<size_t, size_t>> back;  // from a label to the branch that returns there
  for (size_t i = 0; i < code.size(); ++i) {
    const size_t at = code[i].find(".L_x_");
    if (at == std::string::npos || code[i].find("BRA") == std::string::npos) continue;
    const auto label = labels.find(code[i].substr(at, code[i].find_first_of(")`;", at) - at));
    if (label != labels.end() && label->second < i) back.emplace_back(label->second, i);
  }
  const auto count = [&](const std::pair<size_t, size_t>& loop, const char* what) {
    int n = 0;
    for (size_t i = loop.first; i <= loop.second; ++i) n += code[i].find(what) != std::string::npos;
    return n;
  };
  Loops all;
  for (const auto& loop : back) {
    bool innermost = true;  // of those that load: a loop over axes may be inside
    for (const auto& other : back)
      if (other != loop && loop.first <= other.first && other.second <= loop.second)
        innermost = innermost && count(other, " LDG") == 0;
    const int loads = count(loop, " LDG");
    if (!innermost || loads < 2) continue;  // one load: a loop over a row's pieces
    ++all.count;
    all.loads = std::max(all.loads, loads);
    all.local += count(loop, " LDL") + count(loop, " STL") > 0;
    all.divided +=
        count(loop, "div_s64") + count(loop, "div_u64") + count(loop, "rem_s64") + count(loop, "rem_u64") > 0;
  }
  return all;
}

}  // namespace sass
