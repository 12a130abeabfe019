// rill launch -n N -- PROGRAM: runs a program as N ranks on this machine, by mpirun: cores are divided among them, and
// output is labelled by rank.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "command.h"
#include "terminal.h"

namespace command {
namespace {

struct LaunchSettings {
  int ranks = 0;
  bool plain = false, show = false;
  std::vector<std::string> program;
};

int cores() { return std::max(1, int(std::thread::hardware_concurrency())); }

// The output of `mpirun --version`, "" if there is none.
std::string launcher() {
  std::string text;
  if (FILE* pipe = popen("mpirun --version 2>/dev/null", "r")) {
    std::array<char, 256> piece;
    while (const size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), n);
    pclose(pipe);
  }
  return text;
}

using Setting = std::pair<std::string, std::string>;

// Variables that are not already set: threads for each rank, and permissions that Open MPI needs.
std::vector<Setting> environment_of(const LaunchSettings& s, bool open_mpi) {
  std::vector<Setting> all{{"OMP_NUM_THREADS", std::to_string(std::max(1, cores() / s.ranks))}};
  if (open_mpi && geteuid() == 0)
    all.push_back({"OMPI_ALLOW_RUN_AS_ROOT", "1"}), all.push_back({"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"});
  if (open_mpi && s.ranks > cores()) all.push_back({"OMPI_MCA_mpi_yield_when_idle", "1"});
  std::erase_if(all, [](const Setting& v) { return std::getenv(v.first.c_str()) != nullptr; });
  return all;
}

std::vector<std::string> call_of(const LaunchSettings& s, bool open_mpi) {
  std::vector<std::string> call{"mpirun", "-n", std::to_string(s.ranks)};
  const auto add = [&](std::initializer_list<const char*> words) {
    call.insert(call.end(), words.begin(), words.end());
  };
  if (open_mpi) {
    if (s.ranks > cores()) add({"--oversubscribe", "--bind-to", "none"});
    else if (s.ranks * 2 > cores()) add({"--bind-to", "core"});
    else add({"--bind-to", "none"});  // several cores for each rank: its threads are bound to none
    if (!s.plain) add({"--tag-output"});
  } else if (!s.plain) {
    add({"-prepend-rank"});
  }
  call.insert(call.end(), s.program.begin(), s.program.end());
  return call;
}

int launch(LaunchSettings& s) {
  if (s.ranks == 0) s.ranks = cores();
  const std::string version = launcher();
  if (version.empty())
    throw std::runtime_error("there is no mpirun. apt-get install openmpi-bin, or MPICH's, brings it");
  const bool open_mpi = version.find("Open MPI") != version.npos || version.find("OpenRTE") != version.npos;
  const std::vector<Setting> environment = environment_of(s, open_mpi);
  const std::vector<std::string> call = call_of(s, open_mpi);
  if (s.show) {
    for (const auto& [name, value] : environment) fmt::print("{}={} ", name, value);
    fmt::print("{}\n", fmt::join(call, " "));
    return succeeded;
  }
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 0);
  std::vector<char*> words;
  for (const std::string& word : call) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  flush_output();
  execvp(words[0], words.data());  // its exit status is that of the first rank that fails
  throw std::runtime_error(fmt::format("mpirun cannot be started: {}", std::strerror(errno)));
}

}  // namespace

void add_launch(Program& program) {
  CLI::App* sub = add(program, "launch", "starts a program as several ranks on this machine, by mpirun",
                      {"rill launch -n 4 -- ./train --epochs 3", "rill launch -n 2 --show -- ./train"});
  auto s = std::make_shared<LaunchSettings>();
  sub->add_option("-n,--ranks", s->ranks, "how many; one a core if not given")->check(CLI::Range(1, 4096));
  sub->add_flag("--plain", s->plain, "output as it is, without the rank in front of each line");
  sub->add_flag("--show", s->show, "print the call of mpirun, and do not make it");
  sub->add_option("program", s->program, "the program and its arguments, behind --")->required();
  on_call(program, sub, [s] { return launch(*s); });
}

}  // namespace command
