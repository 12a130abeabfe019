// Event files; see inspect.h.
#include <rill/rill.h>
#include <rill/serialize.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "event.pb.h"
#include "files.h"
#include "inspect.h"
#include "terminal.h"

namespace command {
namespace {

// The values of a tag.
struct Tag {
  std::string plugin;
  int64_t count = 0, first = 0, last = 0;
  std::string value;  // the last one, of a scalar
};

bool is_simple(const rill::proto::Summary::Value& v) {
  return v.value_case() == rill::proto::Summary::Value::kSimpleValue;
}

std::string scalar_of(const rill::proto::Summary::Value& v) {
  if (is_simple(v)) return fmt::format("{:.6g}", v.simple_value());
  const rill::proto::TensorProto& t = v.tensor();
  if (t.tensor_shape().dim_size() > 0) return "";
  float x = 0;
  if (t.float_val_size() == 1) return fmt::format("{:.6g}", t.float_val(0));
  if (t.dtype() != rill::proto::DT_FLOAT || t.tensor_content().size() != sizeof x) return "";
  std::memcpy(&x, t.tensor_content().data(), sizeof x);
  return fmt::format("{:.6g}", x);
}

struct Log {
  std::map<std::string, Tag> tags;
  int64_t events = 0, graphs = 0, unreadable = 0;
  double begin = 0, end = 0;  // seconds since 1970

  void add(const std::string& bytes) {
    rill::proto::Event event;
    if (!event.ParseFromString(bytes)) {
      ++unreadable;
      return;
    }
    begin = events == 0 ? event.wall_time() : std::min(begin, event.wall_time());
    end = std::max(end, event.wall_time());
    ++events;
    graphs += event.has_graph_def();
    for (const rill::proto::Summary::Value& v : event.summary().value()) add(v, event.step());
  }
  void add(const rill::proto::Summary::Value& v, int64_t step) {
    Tag& tag = tags[v.tag()];
    const std::string& plugin = v.metadata().plugin_data().plugin_name();
    if (!plugin.empty() || is_simple(v)) tag.plugin = plugin.empty() ? "scalars" : plugin;
    tag.first = tag.count ? std::min(tag.first, step) : step;
    if (tag.count == 0 || step >= tag.last) tag.last = step, tag.value = tag.plugin == "scalars" ? scalar_of(v) : "";
    ++tag.count;
  }
};

void show_file(const std::string& path) {
  Log log;
  each_record(path, [&](const std::string& bytes) { log.add(bytes); });
  print("{}  {}\n", bold(path),
        dim(fmt::format("{} events in {}, {}", count_text(log.events), seconds_text(std::max(log.end - log.begin, 0.)),
                        bytes_text(double(bytes_at(path))))));
  Table table("<<><<");
  for (const auto& [name, tag] : log.tags) {
    const std::string steps =
        tag.first == tag.last ? fmt::format("step {}", tag.last) : fmt::format("steps {} to {}", tag.first, tag.last);
    table.add({green(name), tag.plugin, count_text(tag.count), steps, tag.value.empty() ? "" : "last " + tag.value});
  }
  print("{}", table.text());
  if (log.graphs) print("  {} graph{}\n", log.graphs, log.graphs == 1 ? "" : "s");
  if (log.unreadable) print("  {}\n", red(fmt::format("{} records are no events", count_text(log.unreadable))));
}

}  // namespace

void each_record(const std::string& path, const std::function<void(const std::string&)>& take) {
  rill::RecordReader in(path, {.cut_end = true}, rill::Where());
  Progress progress("records of " + std::filesystem::path(path).filename().string(), 0);
  int64_t count = 0;
  for (std::string bytes; in.next(bytes, rill::Where()); progress.show(++count)) take(bytes);
}

void show_events(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_directory(path, none)) return show_file(path);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (is_event_file(entry.path().string())) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) show_file(file);
}

}  // namespace command
