// CheckpointState as fields of protobuf's text; see state_file.h.
#include "rill/serialize/checkpoint/state_file.h"

#include <fmt/format.h>

#include <charconv>

#include "rill/serialize/text_fields.h"

namespace rill {
namespace {
constexpr std::string_view expected = "TensorFlow's list of checkpoints";
}

std::string to_text(const CheckpointList& list) {
  using Kind = TextField::Kind;
  std::vector<TextField> fields{{"model_checkpoint_path", Kind::text, list.latest}};
  for (const std::string& path : list.all) fields.push_back({"all_model_checkpoint_paths", Kind::text, path});
  for (double t : list.timestamps)
    fields.push_back({"all_model_checkpoint_timestamps", Kind::word, fmt::format("{}", t)});
  fields.push_back({"last_preserved_timestamp", Kind::word, fmt::format("{}", list.last_preserved)});
  return to_text(fields);
}

CheckpointList read_list(const std::string& text, const std::string& path, std::string_view op, const Where& where) {
  const auto number = [&](const TextField& f) {
    std::string_view word = f.value;
    if (word.ends_with('f') && !word.ends_with("inf")) word.remove_suffix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc() && end == word.data() + word.size()) return value;
    fail(op, fmt::format("'{}': '{}' of {} is no number. expected {}", path, f.value, f.name, expected), where);
  };
  CheckpointList list;
  for (const TextField& f : read_text_fields(text, path, expected, op, where)) {
    const bool word = f.kind == TextField::Kind::word, in_quotes = f.kind == TextField::Kind::text;
    if (f.name == "model_checkpoint_path" && in_quotes) list.latest = f.value;
    else if (f.name == "all_model_checkpoint_paths" && in_quotes) list.all.push_back(f.value);
    else if (f.name == "all_model_checkpoint_timestamps" && word) list.timestamps.push_back(number(f));
    else if (f.name == "last_preserved_timestamp" && word) list.last_preserved = number(f);
  }
  if (list.timestamps.size() != list.all.size()) list.timestamps.clear();
  return list;
}

}  // namespace rill
