// For tests of a process: settings in its environment, its end, what it writes.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "catch.h"

// Runs a hidden test case of this program in a process of its own, with settings in its environment; returns its exit
// status and its output. If that case was skipped, so is the calling one.
inline int child(const std::string& settings, const std::string& test, std::string& output) {
  std::string line = settings + " /proc/" + std::to_string(getpid()) + "/exe '" + test + "' 2>&1";
  FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  output.clear();
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  int status = pclose(pipe);
  if (const size_t at = output.find("skipped: "); at != output.npos)
    skip_case(output.substr(at + 9, output.find('\n', at) - at - 9));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
