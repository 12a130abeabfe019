// See timeline.h. Events are recorded in world.cpp.
#include "rill/distribute/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

#include "rill/distribute/collectives.h"
#include "rill/distribute/engine/world.h"
#include "rill/ops/ops.h"
#include "rill/tensor/json_string.h"

namespace rill::distribute {
namespace {

std::string named(const char* what, int rank, size_t track, const std::string& name) {
  return fmt::format("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", what, rank,
                     track, json_string(name));
}

// The events of a rank, those that move at the same time on tracks of their own.
std::string json_of(const std::vector<World::Event>& events, int rank, double begun) {
  std::vector<double> free_from;  // by track of what moves
  std::string text =
      named("process_name", rank, 0, fmt::format("rank {}", rank)) + ",\n" + named("thread_name", rank, 0, "waits");
  for (const World::Event& e : events) {
    size_t track = 0;
    if (e.moves) {
      const auto at = std::find_if(free_from.begin(), free_from.end(), [&](double end) { return end <= e.begin; });
      track = 1 + size_t(at - free_from.begin());
      if (at == free_from.end()) {
        free_from.push_back(0);
        text += ",\n" + named("thread_name", rank, track, "moves");
      }
      free_from[track - 1] = e.end;
    }
    text += fmt::format(",\n{{\"ph\":\"X\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
                        json_string(e.what), rank, track, (e.begin - begun) * 1e6, (e.end - e.begin) * 1e6);
  }
  return text;
}

}  // namespace

Timeline::Timeline(std::string path, Where where) : path_(std::move(path)) {
  CallerScope caller(where);
  World* world = World::now_or_alone(where);
  barrier({}, where);
  begun_ = World::seconds();  // equal on all ranks, up to the time of a note
  if (!world) return;
  const std::unique_lock lock(world->mutex);
  if (!world->begin_events()) fail("distribute::Timeline", "there is one already", where);
}

Timeline::~Timeline() {
  World* world = World::now();
  std::vector<World::Event> events;
  if (world) {
    const std::unique_lock lock(world->mutex);
    events = world->end_events();
  }
  try {
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    const int64_t me = rank();
    const Tensor all = gather(tensor(json_of(events, int(me), begun_)), 0);
    if (me != 0) return;
    std::string text;
    for (const std::string& of_rank : all.to_vector<std::string>()) text += (text.empty() ? "" : ",\n") + of_rank;
    std::FILE* file = std::fopen(path_.c_str(), "w");
    if (!file) {
      std::fprintf(stderr, "rill: the timeline '%s' cannot be written\n", path_.c_str());
      return;
    }
    std::fprintf(file, "{\"traceEvents\":[\n%s\n]}\n", text.c_str());
    std::fclose(file);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
}

}  // namespace rill::distribute
