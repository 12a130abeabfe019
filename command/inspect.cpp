// rill inspect FILE: the contents of a file of tensors or a checkpoint. Event files are in inspect_logs.cpp, tables,
// records, audio and pictures in inspect_data.cpp.
#include "inspect.h"

#include <algorithm>
#include <cmath>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

using rill::Spec;
using rill::Tensor;

struct InspectSettings {
  std::string path, tensor;
  bool sorted = false;
  DataSettings data;
};

// Smallest, largest, mean, and the number of non-finite elements.
std::vector<std::string> stats_of(const Tensor& x) {
  if (x.size() == 0 || !(rill::is_floating(x.dtype()) || rill::is_integer(x.dtype()))) return {"", "", "", ""};
  const Tensor y = x.astype(rill::f64), finite = rill::isfinite(y);
  const auto odd = x.size() - rill::count_nonzero(finite).item<int64_t>();
  if (odd == x.size()) return {"", "", "", red(fmt::format("{} not finite", odd))};
  auto over_finite = [&](double otherwise) { return rill::where(finite, y, otherwise); };
  return {fmt::format("{:.4g}", rill::min(over_finite(INFINITY)).item<double>()),
          fmt::format("{:.4g}", rill::max(over_finite(-INFINITY)).item<double>()),
          fmt::format("{:.4g}", rill::sum(over_finite(0)).item<double>() / double(x.size() - odd)),
          odd ? red(fmt::format("{} not finite", odd)) : ""};
}

// The tensors of a file by name, without their elements where the format can do that.
std::vector<std::pair<std::string, Spec>> entries_of(const std::string& path, Kind kind, Unreadable& unreadable) {
  if (kind == Kind::checkpoint) return rill::checkpoint_entries(checkpoint_prefix(path), unreadable, rill::Where());
  std::vector<std::pair<std::string, Spec>> entries;
  for (const auto& [name, x] : load_tensors(path, &unreadable)) entries.emplace_back(name, x.spec());
  return entries;
}

void show_one(const InspectSettings& s) {
  Unreadable unreadable;
  const rill::NamedTensors all = load_tensors(s.path, &unreadable);
  const auto found = all.find(s.tensor);
  if (const auto why = unreadable.find(s.tensor); why != unreadable.end()) throw rill::Error(why->second);
  if (found == all.end()) throw UsageError(fmt::format("'{}' holds no tensor '{}'", s.path, s.tensor));
  print("{}  {}\n{}\n", green(s.tensor), dim(spec_text(found->second)), rill::to_string(found->second));
}

void show_tensors(const InspectSettings& s, Kind kind) {
  if (!s.tensor.empty()) return show_one(s);
  Unreadable unreadable;
  std::vector<std::pair<std::string, Spec>> entries = entries_of(s.path, kind, unreadable);
  if (s.sorted)
    std::stable_sort(entries.begin(), entries.end(),
                     [](auto& a, auto& b) { return bytes_of(a.second) > bytes_of(b.second); });
  const rill::NamedTensors values = s.data.stats ? load_tensors(s.path, &unreadable) : rill::NamedTensors();
  Table table(s.data.stats ? "<<>>>><" : "<<>");
  if (s.data.stats) table.add({dim("name"), "", dim("bytes"), dim("min"), dim("max"), dim("mean"), ""});
  Progress progress("reading", int64_t(entries.size()));
  int64_t numbers = 0, bytes = 0, done = 0;
  for (const auto& [name, spec] : entries) {
    numbers += spec.shape.numel();
    bytes += bytes_of(spec);
    std::vector<std::string> row = {green(name.empty() ? "(no name)" : name), rill::to_string(spec),
                                    bytes_text(double(bytes_of(spec)))};
    if (s.data.stats)
      for (std::string& cell : stats_of(values.at(name))) row.push_back(std::move(cell));
    table.add(std::move(row));
    progress.show(++done);
  }
  print("{}", table.text(0));
  print("{} numbers in {} tensors, {}\n", count_text(numbers), count_text(int64_t(entries.size())),
        bytes_text(double(bytes)));
  for (const auto& [name, why] : unreadable) print("{} {}: {}\n", red("? cannot be read:"), name, why);
  if (kind != Kind::tensors) return;
  for (const auto& [key, value] : rill::load_metadata(s.path, rill::Where()))
    print("{}\n", dim(fmt::format("{}: {}", key, value)));
}

int inspect(const InspectSettings& s) {
  const Kind kind = kind_of(s.path);
  switch (kind) {
    case Kind::tensors:
    case Kind::checkpoint: show_tensors(s, kind); break;
    case Kind::events: show_events(s.path); break;
    case Kind::records: show_records(s.path, s.data); break;
    case Kind::table: show_table(s.path, s.data); break;
    case Kind::idx: show_idx(s.path, s.data); break;
    case Kind::audio: show_audio(s.path, s.data); break;
    case Kind::pictures: show_pictures(s.path, s.data); break;
    case Kind::model: throw UsageError(fmt::format("'{}' is a model: rill show {}", s.path, s.path));
  }
  return succeeded;
}

}  // namespace

void add_inspect(Program& program) {
  auto s = std::make_shared<InspectSettings>();
  CLI::App* sub = add(program, "inspect", "what is in a file of tensors, a checkpoint or a log",
                      {"rill inspect weights.safetensors --largest", "rill inspect data.npz --tensor x",
                       "rill inspect ckpt/step-100 --stats", "rill inspect ckpt                # the latest there",
                       "rill inspect logs/mnist          # an event file, or a folder of such",
                       "rill inspect train.tfrecord --stats", "rill inspect houses.csv.gz --head 5",
                       "rill inspect houses.arrow", "rill inspect speech.flac", "rill inspect pictures/"});
  sub->add_option(
         "FILE", s->path,
         ".npy, .npz, .safetensors, .gguf, the prefix or folder of a checkpoint, event files, .tfrecord, .csv, "
         ".tsv, .arrow, .parquet, IDX, audio, a folder of pictures")
      ->required();
  sub->add_option("--tensor", s->tensor, "print this one's elements");
  sub->add_flag("--stats", s->data.stats, "smallest and largest number, mean, what is not finite or missing");
  sub->add_option("--head", s->data.head, "print so many of the first elements: rows, records, frames")
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--largest", s->sorted, "the largest first");
  on_call(program, sub, [s] { return inspect(*s); });
}

}  // namespace command
