// Reading files of cases (cases.h describes them) and the options of a call.
#include "cases.h"

#include <zlib.h>

#include <cstring>
#include <limits>
#include <stdexcept>

namespace oracle {

using namespace rill;

namespace {

std::string unpack(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::string bytes;
  std::vector<char> part(1 << 20);
  int n = 0;
  while ((n = gzread(file, part.data(), unsigned(part.size()))) > 0) bytes.append(part.data(), size_t(n));
  gzclose(file);
  if (n < 0) throw std::runtime_error(path + ": is damaged");
  return bytes;
}

// The same elements, otherwise laid out in memory.
Tensor laid_out(const Tensor& dense, const std::string& layout) {
  if (layout == "transposed") return transpose(transpose(dense).contiguous());
  if (layout == "reversed") return reverse(reverse(dense).contiguous());
  if (layout == "sliced") return repeat(dense, 2, -1)(ellipsis, slice(1, none, 2));
  if (layout == "offset") return concat({dense, dense}, 0)(slice(dense.dim(0), none));
  if (layout == "repeated") return broadcast_to(dense(slice(0, 1)).contiguous(), dense.shape());
  if (layout == "weak")
    return is_floating(dense.dtype()) ? Tensor(dense.item<double>()) : Tensor(dense.item<int64_t>());
  return dense;
}

class Reader {
 public:
  Reader(const std::string& bytes, size_t at) : data_(bytes.data() + at), size_(bytes.size() - at) {}
  Tensor tensor(const json& t) const {
    const DType dtype = parse_dtype(t.at(0).get<std::string>());
    const auto sizes = t.at(1).get<std::vector<int64_t>>();
    Shape shape;
    for (int64_t s : sizes) shape.push_back(s);
    const auto at = t.at(2).get<size_t>();
    if (at + size_t(shape.numel()) * size_of(dtype) > size_) throw std::runtime_error("a tensor lies outside the file");
    return laid_out(detail::literal(data_ + at, dtype, shape, {}, Where::current()), t.at(3).get<std::string>());
  }
  Expected expected(const json& e) const {
    Expected x{tensor(e.at("t")), 0, Tensor(0.0).astype(f64), true};
    if (e.contains("ulp")) x.ulp = e["ulp"], x.exact = false;
    if (e.contains("abs")) {
      x.exact = false;
      x.abs = e["abs"].is_number() ? Tensor(e["abs"].get<double>()).astype(f64) : tensor(e["abs"]).astype(f64);
    }
    return x;
  }

 private:
  const char* data_;
  size_t size_;
};

Transforms read_transforms(const json& t, const Reader& reader) {
  Transforms out;
  t.at("by").get_to(out.by), t.at("kept").get_to(out.kept), t.at("list").get_to(out.list);
  t.at("out_axis").get_to(out.out_axis);
  for (auto [name, part] :
       {std::pair("tangents", &out.tangents), std::pair("cotangents", &out.cotangents), std::pair("batch", &out.batch)})
    for (const json& each : t.at(name)) part->push_back(reader.tensor(each));
  for (const json& axis : t.at("in_axes"))
    out.in_axes.push_back(axis.is_null() ? std::nullopt : std::optional(axis.get<int64_t>()));
  for (const auto& [name, want] : t.at("want").items())
    for (const json& e : want) out.want[name].push_back(reader.expected(e));
  return out;
}

Case read_case(const json& c, const Reader& reader) {
  Case out;
  out.fn = c.at("fn");
  for (const json& t : c.at("in")) out.in.push_back(reader.tensor(t));
  out.options = c.at("opt");
  for (const json& e : c.at("out")) out.out.push_back(reader.expected(e));
  for (const json& t : c.value("cot", json::array()))
    out.cotangents.push_back(t.is_null() ? Tensor() : reader.tensor(t));
  for (const json& e : c.value("grad", json::array()))
    out.gradients.push_back(e.is_null() ? std::nullopt : std::optional(reader.expected(e)));
  out.rounds = c.value("rounds", false);
  if (c.contains("transforms")) out.transforms = read_transforms(c["transforms"], reader);
  return out;
}

double real_number(const json& n) {
  if (n.is_number()) return n;
  const std::string text = n;  // what JSON has no number for
  return text == "inf"    ? std::numeric_limits<double>::infinity()
         : text == "-inf" ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

CaseFile read_cases(const std::string& path) {
  const std::string magic = "rill oracle 1\n", bytes = unpack(path);
  if (!bytes.starts_with(magic)) throw std::runtime_error(path + ": is no file of cases");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + magic.size(), sizeof length);
  const size_t start = magic.size() + sizeof length;
  const json text = json::parse(bytes.begin() + int64_t(start), bytes.begin() + int64_t(start + length));
  CaseFile file;
  for (const auto& [name, version] : text.at("versions").items())
    file.versions += name + " " + version.get<std::string>() + ", ";
  file.versions += "seed " + text.at("seed").dump();
  const Reader reader(bytes, start + length);
  for (const json& c : text.at("cases")) file.cases.push_back(read_case(c, reader));
  return file;
}

double Call::number(const char* name, double otherwise) const {
  return has(name) ? real_number(options[name]) : otherwise;
}

std::vector<double> Call::numbers(const char* name) const {
  std::vector<double> out;
  if (has(name))
    for (const json& n : options[name]) out.push_back(real_number(n));
  return out;
}

Dims Call::dims(const char* name) const {
  Dims out;
  for (int64_t n : list(name)) out.push_back(n);
  return out;
}

std::optional<int64_t> Call::axis(const char* name) const {
  return has(name) ? std::optional(options[name].get<int64_t>()) : std::nullopt;
}

Axes Call::axes(const char* name) const {
  Axes out;
  if (!has(name)) return out;
  if (options[name].is_number()) out.push_back(options[name].get<int64_t>());
  else
    for (int64_t a : list(name)) out.push_back(a);
  return out;
}

std::optional<DType> Call::dtype(const char* name) const {
  return has(name) ? std::optional(parse_dtype(text(name))) : std::nullopt;
}

}  // namespace oracle
