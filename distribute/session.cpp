// See session.h. The work of a Session is in world.cpp.
#include "rill/distribute/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "rill/distribute/engine/pending.h"
#include "rill/distribute/engine/world.h"

namespace rill::distribute {
namespace {

std::unique_ptr<World> only;
std::string made_at;
int exceptions_then = 0;

}  // namespace

Session::Session(const SessionOptions& options, Where where) {
  only = std::make_unique<World>(options, where);
  made_at = place_of(where);
  exceptions_then = std::uncaught_exceptions();
}
Session::Session(int, char**, const SessionOptions& options, Where where) : Session(options, where) {}

Session::~Session() {
  const bool is_thrown = std::uncaught_exceptions() > exceptions_then;
  if (const std::string lost = never_waited_for(); !lost.empty() && !is_thrown && only->is_own()) {
    if (!only->alone()) only->end_job(lost);
    std::fprintf(stderr, "%s\n", lost.c_str());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  only->leave(is_thrown, made_at);
  only.reset();
}

int64_t rank(Where where) {
  const World* world = World::now_or_alone(where);
  return world ? world->rank() : 0;
}
int64_t size(Where where) {
  const World* world = World::now_or_alone(where);
  return world ? world->size() : 1;
}
int64_t local_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* text = std::getenv(name)) return std::max(0, std::atoi(text));
  return 0;
}

Group::Group(const std::vector<int64_t>& ranks, Where where) {
  if (ranks.empty()) fail("distribute::Group", "there is no rank in the group", where);
  for (const int64_t r : ranks) {
    if (r < 0 || r >= distribute::size(where))
      fail("distribute::Group", fmt::format("there is no rank {}: the job has {}", r, distribute::size(where)), where);
    if (std::count(ranks.begin(), ranks.end(), r) > 1)
      fail("distribute::Group", fmt::format("rank {} stands there twice", r), where);
    ranks_.push_back(Dim(r));
  }
}
int64_t Group::size(Where where) const { return ranks_.empty() ? distribute::size(where) : int64_t(ranks_.size()); }
int64_t Group::rank(Where where) const {
  const int64_t me = distribute::rank(where);
  if (ranks_.empty()) return me;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i] == me) return int64_t(i);
  return -1;
}

}  // namespace rill::distribute
