// Inputs for models: from files, from parts of files, random ones; and shapes on the command line.
#include <fmt/format.h>
#include <rill/data.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

using rill::Shape;
using rill::Tensor;
using rill::ValueInfo;

std::optional<int64_t> number_in(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string names_of(const rill::Model& model) {
  std::string text;
  for (const ValueInfo& v : model.inputs()) text += (text.empty() ? "" : ", ") + rill::to_string(v);
  return text.empty() ? "nothing" : text;
}

const ValueInfo& input_named(const rill::Model& model, const std::string& name) {
  for (const ValueInfo& v : model.inputs())
    if (v.name == name) return v;
  throw UsageError(fmt::format("the model has no input '{}'. it takes {}", name, names_of(model)));
}

// Splits "x=rest"; without "x=", the name is that of the only input.
std::pair<std::string, std::string> split_name(const rill::Model& model, const std::string& text) {
  // A name may contain a '='.
  for (const ValueInfo& v : model.inputs())
    if (text.starts_with(v.name + "=")) return {v.name, text.substr(v.name.size() + 1)};
  const size_t at = text.find('=');
  if (at != text.npos && !std::filesystem::exists(text)) return {text.substr(0, at), text.substr(at + 1)};
  if (model.inputs().size() == 1) return {model.inputs()[0].name, text};
  throw UsageError(
      fmt::format("'{}' does not say which input it is for: NAME={}. the model takes {}", text, text, names_of(model)));
}

// --- Files -----------------------------------------------------------------------------------------------------------

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (!in) throw rill::Error(fmt::format("'{}': cannot be read", path));
  return bytes.str();
}

bool is_picture(const std::string& path) { return ends_in(path, {".png"}); }
// The only tensor of a file, or the one called `name` in it.
Tensor read_tensor(const std::string& path, const std::string& name) {
  if (!std::filesystem::exists(path)) throw rill::Error(fmt::format("'{}': no such file", path));
  if (is_table(path) && name.empty()) return read_table(path).stacked({}, rill::f64, rill::Where());
  if (is_picture(path)) return rill::decode_png(read_all(path), rill::Where());
  if (is_idx(path)) return rill::data::read_idx(path, rill::Where());
  const rill::NamedTensors all = load_tensors(path);
  if (name.empty() && all.size() == 1) return all.begin()->second;
  if (auto found = all.find(name); found != all.end()) return found->second;
  std::string known;
  for (const auto& [key, value] : all) known += (known.empty() ? "" : ", ") + key;
  throw UsageError(name.empty()
                       ? fmt::format("'{}' holds several tensors. say which: {}:NAME, of {}", path, path, known)
                       : fmt::format("'{}' holds no tensor '{}'. it holds {}", path, name, known));
}

// The rows of `x` in the brackets of "FILE[2:5]".
Tensor rows_of(const Tensor& x, const std::string& file, const std::string& rows) {
  if (x.ndim() == 0) throw UsageError(fmt::format("'{}' is a single number and has no rows [{}]", file, rows));
  const int64_t size = x.dim(0);
  const size_t colon = rows.find(':');
  const bool one = colon == rows.npos;
  const std::string from = rows.substr(0, colon), to = one ? "" : rows.substr(colon + 1);
  std::optional<int64_t> begin = from.empty() && !one ? 0 : number_in(from);
  std::optional<int64_t> end = to.empty() ? size : number_in(to);
  if (!begin || !end)
    throw UsageError(fmt::format("'[{}]' is no row and no range of rows, such as [3] or [2:5]", rows));
  if (*begin < 0) *begin += size;
  if (*end < 0) *end += size;
  if (*begin < 0 || *begin > size - one || *end > size || *begin > *end)
    throw UsageError(fmt::format("'{}' has {} rows, of which [{}] is no part", file, size, rows));
  return x(rill::slice(*begin, one ? *begin + 1 : *end));
}

struct Piece {
  Tensor x;
  bool plain;  // from a file whose dtypes mean little: text, a picture
};

// "FILE", "FILE:name", each optionally with "[3]" or "[2:5]": rows along the first axis.
Piece read_piece(std::string text) {
  std::optional<std::string> rows;
  std::string name;
  if (!std::filesystem::exists(text) && text.ends_with(']') && text.rfind('[') != text.npos) {
    rows = text.substr(text.rfind('[') + 1);
    rows->pop_back();
    text.resize(text.rfind('['));
  }
  if (!std::filesystem::exists(text) && text.rfind(':') != text.npos) {
    name = text.substr(text.rfind(':') + 1);
    text.resize(text.rfind(':'));
  }
  const Tensor x = read_tensor(text, name);
  return {rows ? rows_of(x, text, *rows) : x, is_table(text) || is_picture(text)};
}

// --- Fitting inputs to the model -------------------------------------------------------------------------------------

bool is_same_kind(rill::DType a, rill::DType b) {
  return (rill::is_floating(a) && rill::is_floating(b)) || (rill::is_integer(a) && rill::is_integer(b));
}

// `x` as `dtype`. Throws if that would change an integer or drop an imaginary part.
Tensor converted(const ValueInfo& v, const Tensor& x) {
  if (rill::is_complex(x.dtype()) && !rill::is_complex(v.dtype))
    throw UsageError(fmt::format("the model takes {}, and is given {}: real numbers hold no complex ones",
                                 rill::to_string(v), spec_text(x)));
  const Tensor y = x.astype(v.dtype);
  if (!rill::is_integer(v.dtype)) return y;
  const Tensor whole = rill::is_floating(x.dtype()) ? rill::trunc(x) : x;
  // For equal widths, wrapped numbers convert back; only the sign differs.
  const Tensor same = logical_and(y.astype(x.dtype()) == whole, (y < 0) == (whole < 0));
  if (!rill::all(same).item<bool>())
    throw UsageError(fmt::format("the model takes {}, and {} has numbers that {} does not hold", rill::to_string(v),
                                 spec_text(x), rill::name(v.dtype)));
  return y;
}

// `x` converted for `v`: to its dtype if that is another width of the same kind, or with --cast, and for files whose
// dtypes mean little, any number; with an axis added in front, or removed at the end, if only that is wrong.
Tensor fitted(const ValueInfo& v, Tensor x, bool cast) {
  const bool number = x.dtype() != rill::string && v.dtype != rill::string;
  if (x.dtype() != v.dtype && number && (cast || is_same_kind(x.dtype(), v.dtype))) x = converted(v, x);
  else if (x.dtype() != v.dtype)
    throw UsageError(fmt::format("the model takes {}, and is given {}{}", rill::to_string(v), spec_text(x),
                                 number ? ". --cast converts numbers" : ""));
  if (!v.has_shape) return x;
  const auto wanted = int64_t(v.shape.size());
  const bool one_channel = x.ndim() > 0 && x.dim(-1) == 1;
  if (x.ndim() == wanted + 1 && one_channel && v.shape.back() != 1) x = rill::squeeze(x, -1);
  if (x.ndim() == wanted && one_channel && wanted > 1 && v.shape.back() != 1 && v.shape.back() != rill::open_size)
    x = rill::squeeze(x, -1);
  if (x.ndim() + 1 == wanted) x = rill::expand_dims(x, 0);
  return x;
}

}  // namespace

// The names of MNIST's files: train-images-idx3-ubyte.gz, or with the extension .idx.
bool is_idx(const std::string& path) {
  const std::string plain = ends_in(path, {".gz"}) ? path.substr(0, path.size() - 3) : path;
  return plain.ends_with("-ubyte") || ends_in(plain, {".idx", ".idx1-ubyte", ".idx3-ubyte"});
}

// --- Shapes ----------------------------------------------------------------------------------------------------------

std::map<std::string, Shape> parse_shapes(const rill::Model& model, const std::vector<std::string>& texts) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : texts) {
    auto [name, sizes] = split_name(model, text);
    const ValueInfo& v = input_named(model, name);
    Shape shape;
    std::istringstream parts(sizes);
    for (std::string part; std::getline(parts, part, ',');) {
      const std::optional<int64_t> n = part == "?" ? rill::open_size : number_in(part);
      if (!n || (*n < 0 && part != "?"))
        throw UsageError(fmt::format("'{}' is no shape. write sizes with commas between: {}=1,3,224,224", text, name));
      shape.push_back(*n);
    }
    bool fits = !v.has_shape || shape.size() == v.shape.size();
    for (size_t i = 0; fits && v.has_shape && i < shape.size(); ++i)
      fits = v.shape[i] == rill::open_size || v.shape[i] == shape[i];
    if (!fits) throw UsageError(fmt::format("the model takes {}, which [{}] does not fit", rill::to_string(v), sizes));
    shapes[name] = std::move(shape);
  }
  return shapes;
}

std::vector<rill::ArgSpec> signature_of(const rill::Model& model, const std::map<std::string, Shape>& shapes) {
  std::vector<rill::ArgSpec> specs;
  for (const ValueInfo& v : model.inputs()) {
    if (v.optional) continue;
    const auto given = shapes.find(v.name);
    if (v.kind != ValueInfo::Kind::tensor)
      throw rill::Error(fmt::format("{}: there is no graph for any number of tensors", rill::to_string(v)));
    if (given == shapes.end() && !v.has_shape)
      throw UsageError(
          fmt::format("the file says nothing of the shape of '{}'. give it: --shape {}=1,8", v.name, v.name));
    specs.push_back(rill::spec(v.dtype, given == shapes.end() ? v.shape : given->second, v.name, {}, rill::Where()));
  }
  return specs;
}

rill::Graph graph_of(const rill::Model& model, const std::map<std::string, Shape>& shapes) {
  std::map<std::string, Tensor> inputs;
  bool open = false;
  for (const rill::ArgSpec& s : signature_of(model, shapes)) {
    inputs[s.name] = rill::make_stand_in(s.spec);
    for (const int64_t d : s.spec.shape) open |= d == rill::open_size;
  }
  try {
    return model.graph(inputs, rill::Where());
  } catch (const rill::Error& e) {
    if (!open) throw;
    throw rill::Error(std::string(e.what()) + ". sizes that the file leaves open were tried as 8; --shape says others");
  }
}

// --- Inputs ----------------------------------------------------------------------------------------------------------

Tensor random_input(const ValueInfo& v, const InputOptions& options) {
  if (v.dtype == rill::string)
    throw UsageError(fmt::format("'{}' is text, which cannot be random. give it a file", v.name));
  const auto given = options.shapes.find(v.name);
  if (given == options.shapes.end() && !v.has_shape)
    throw UsageError(
        fmt::format("the file says nothing of the shape of '{}'. give it: --shape {}=1,8", v.name, v.name));
  Shape shape = given == options.shapes.end() ? v.shape : given->second;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != rill::open_size) continue;
    if (i > 0)
      throw UsageError(fmt::format("{} leaves more open than the batch. give it a shape: --shape {}=1,...",
                                   rill::to_string(v), v.name));
    shape[i] = options.batch;
  }
  const Tensor x = rill::random::uniform(shape);
  if (rill::is_floating(v.dtype)) return x.astype(v.dtype);
  return (x < 0.5f).astype(v.dtype);  // indices that every table has
}

std::map<std::string, Tensor> read_inputs(const rill::Model& model, const InputOptions& options) {
  std::map<std::string, Tensor> inputs;
  auto put = [&](const ValueInfo& v, const Tensor& x, bool plain) {
    if (!inputs.emplace(v.name, fitted(v, x, options.cast || plain)).second)
      throw UsageError(fmt::format("'{}' is given twice", v.name));
  };
  for (const std::string& path : options.files) {
    const rill::NamedTensors all = load_tensors(path);
    if (all.size() == 1 && model.inputs().size() == 1) {
      put(model.inputs()[0], all.begin()->second, false);
      continue;
    }
    for (const auto& [name, x] : all) {
      const bool item = std::any_of(model.inputs().begin(), model.inputs().end(), [&](const ValueInfo& v) {
        return v.kind == ValueInfo::Kind::sequence && name.starts_with(v.name + "/");
      });
      if (item) inputs[name] = x;
      else put(input_named(model, name), x, false);
    }
  }
  for (const std::string& text : options.single) {
    const auto [name, file] = split_name(model, text);
    const Piece piece = read_piece(file);
    put(input_named(model, name), piece.x, piece.plain);
  }
  std::string missing;
  for (const ValueInfo& v : model.inputs()) {
    if (v.optional || v.kind == ValueInfo::Kind::sequence || inputs.count(v.name)) continue;
    if (options.random) inputs[v.name] = random_input(v, options);
    else missing += (missing.empty() ? "" : ", ") + rill::to_string(v);
  }
  if (!missing.empty())
    throw UsageError(
        fmt::format("nothing is given for {}. give --inputs FILE.npz, --input NAME=FILE, or --random", missing));
  return inputs;
}

}  // namespace command
