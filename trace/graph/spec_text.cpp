// Writes and reads specs; see spec_text.h.
#include "rill/trace/graph/spec_text.h"

#include <fmt/format.h>

#include <charconv>

#include "rill/tensor/limits.h"

namespace rill {

namespace {
[[noreturn]] void reject(std::string_view text, const char* expected) {
  fail("Graph", fmt::format("expected {}, found '{}'", expected, text.substr(0, 80)), Where());
}
}  // namespace

std::string dims_text(const Dims& dims, const PrintDim& print_dim) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "," : "") + (dims[i].is_open() ? print_dim(dims[i]) : std::to_string(dims[i].plain()));
  return text + "]";
}

Dims read_dims(std::string_view text, const ReadDim& read_dim) {
  if (!text.starts_with('[') || !text.ends_with(']')) reject(text, "a list of numbers");
  std::string_view rest = text.substr(1, text.size() - 2);
  Dims dims;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    int64_t n = 0;
    const auto [stop, fault] = std::from_chars(item.data(), item.data() + item.size(), n);
    const bool whole = fault == std::errc() && stop == item.data() + item.size();
    dims.push_back(whole ? Dim(n) : read_dim(item));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return dims;
}

std::string spec_text(const Spec& s, const PrintDim& print_dim) {
  return (s.weak ? "weak " : "") + std::string(name(s.dtype)) + dims_text(s.shape, print_dim) +
         (s.device == Device() ? "" : " on " + to_string(s.device));
}

Tensor placed(Tensor t, const Spec& spec) {
  if (!(spec.device == t.device())) t = t.to(spec.device);
  if (!spec.weak) return t;
  Spec own = t.spec();
  own.weak = true;
  Tensor number = make_tensor(std::move(own), t.rep()->buffer);
  number.mutable_rep()->data = t.rep()->data;
  return number;
}

std::string placed_text(const Spec& s) {
  return s.device == Device() ? to_string(s) : to_string(s) + " on " + to_string(s.device);
}

Spec read_spec(std::string_view text, const ReadDim& read_dim) {
  Spec s;
  std::string_view rest = text;
  if (rest.starts_with("weak ")) s.weak = true, rest.remove_prefix(5);
  if (const size_t on = rest.find(" on "); on != rest.npos) {
    s.device = Device(rest.substr(on + 4));
    rest = rest.substr(0, on);
  }
  const size_t open = std::min(rest.find('['), rest.size());
  s.dtype = parse_dtype(rest.substr(0, open));
  s.shape = read_dims(rest.substr(open), read_dim);
  for (Dim d : s.shape)
    if (d.hint() < 0 && d.hint() != open_size) reject(text, "a spec, whose sizes are not negative");
  if (s.shape.size() > max_tensor_axes) reject(text, "a spec of fewer axes");
  return s;
}

}  // namespace rill
