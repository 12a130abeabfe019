// The cases that other libraries computed (generate.py, with numpy, scipy, torch and JAX), and the table of the
// functions that they call.
//
// A file of cases is compressed by gzip. Inside: the line "rill oracle 1", eight bytes with the length n of a JSON text
// (little endian), that text, and the elements of all tensors. The text is
//   {"versions": {...}, "seed": n, "cases": [case, ...]}
//   case      {"fn": name, "in": [tensor], "opt": {name: number, list or text}, "out": [expected],
//              "cot": [tensor or null], "grad": [expected or null], "rounds": whether traced gradients may have other
//              bits than eager ones, and are held to "grad"}, or with "transforms" in the place of the last four
//   tensor    [dtype, shape, offset of its row-major elements behind the text, layout ("" is dense)]
//   expected  {"t": tensor}, and how far off an element may be: "ulp" units in its last place plus "abs", a number or a
//             tensor. Without both it must be equal to the sign of zero; any NaN equals any.
// "grad" has an entry an operand: the gradient of the sum of all outputs times their cotangents "cot". "transforms" are
// of the function of the operands numbered in "by", with the results numbered in "kept":
//   {"by": [n], "kept": [n], "list": whether arguments go as one std::vector, "tangents": [tensor] of the operands,
//    "cotangents": [tensor] of the results, "batch": [tensor], rows of the operands along "in_axes": [n or null],
//    "out_axis": n, "want": {"jvp" | "vjp" | "jacobian" | "hessian" | "vmap" | "vmap of grad" | "grad of vmap":
//    [expected]}}
// A Jacobian is that of each result by each operand. Gradients and Hessians are of the sum of all results' squares
// (of complex ones, magnitudes) times "cotangents", that of vmap's results where the gradient is of vmap.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rill/nn.h"
#include "rill/rill.h"

namespace oracle {

using json = nlohmann::json;
using Values = std::vector<rill::Tensor>;

struct Expected {
  rill::Tensor value;
  double ulp = 0;
  rill::Tensor abs;  // f64, of the value's shape or a scalar
  bool exact = true;
};

struct Transforms {
  std::vector<size_t> by, kept;
  bool list = false;
  Values tangents, cotangents, batch;
  std::vector<std::optional<int64_t>> in_axes;
  int64_t out_axis = 0;
  std::map<std::string, std::vector<Expected>> want;
};

struct Case {
  std::string fn;
  Values in;  // in the layout that the case says
  json options;
  std::vector<Expected> out;
  Values cotangents;                               // undefined if the output has none
  std::vector<std::optional<Expected>> gradients;  // one an operand, or none at all
  bool rounds = false;
  std::optional<Transforms> transforms;
};

struct CaseFile {
  std::string versions;
  std::vector<Case> cases;
};
// Throws std::runtime_error where the file is not one of cases.
CaseFile read_cases(const std::string& path);

// A call as the table's functions see it: operands and options by name.
class Call {
 public:
  Call(const Values& in, const json& options) : in(in), options(options) {}
  const rill::Tensor& operator[](size_t i) const { return in.at(i); }
  bool has(const char* name) const { return options.contains(name); }
  int64_t integer(const char* name, int64_t otherwise) const { return options.value(name, otherwise); }
  double number(const char* name, double otherwise) const;
  bool flag(const char* name, bool otherwise = false) const { return options.value(name, otherwise); }
  std::string text(const char* name, const char* otherwise = "") const {
    return options.value(name, std::string(otherwise));
  }
  std::vector<int64_t> list(const char* name) const { return options.value(name, std::vector<int64_t>()); }
  std::vector<double> numbers(const char* name) const;
  rill::Dims dims(const char* name) const;
  std::optional<int64_t> axis(const char* name = "axis") const;
  // A number or a list of them.
  rill::Axes axes(const char* name = "axis") const;
  std::optional<rill::DType> dtype(const char* name = "dtype") const;
  // Operands from the i-th on.
  Values rest(size_t i) const { return {in.begin() + int64_t(i), in.end()}; }

  const Values& in;
  const json& options;
};

rill::QuantileOptions quantile_options(const Call& c);

// A call's options `axis` and `epsilon`, and `layout`.
inline rill::NormalizeOptions normalize_options(const Call& c) {
  return {.axis = c.integer("axis", -1), .epsilon = c.number("epsilon", 1e-5)};
}
inline rill::Layout layout(const Call& c) {
  return c.text("layout") == "nchw" ? rill::Layout::nchw : rill::Layout::nhwc;
}

struct Entry {
  std::function<Values(const Call&)> call;
  bool traces = true;  // whether it may be called inside `function`
};
using Table = std::map<std::string, Entry>;
void add_elementwise(Table& t);
void add_reductions(Table& t);
void add_shapes(Table& t);
void add_networks(Table& t);
void add_arrays(Table& t);
void add_functional(Table& t);
void add_numeric(Table& t);
void add_special(Table& t);
void add_matrices(Table& t);
void add_programs(Table& t);
void add_sparse(Table& t);

}  // namespace oracle
