// einsum, as contractions of two operands at a time. An operand is a tensor with a label for each axis; start at
// einsum() at the end: parse, take diagonals, contract from the left, transpose to the output's order.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "rill/ops/common_dtype.h"
#include "rill/ops/linalg.h"
#include "rill/ops/ops.h"

namespace rill {
namespace {

// A letter, or ellipsis_label + i for the i-th axis of "...".
using Labels = std::vector<int>;
constexpr int ellipsis_label = 256;

struct Term {
  Tensor t;
  Labels labels;
};

bool has(const Labels& labels, int l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }
int64_t axis_of(const Labels& labels, int l) { return std::find(labels.begin(), labels.end(), l) - labels.begin(); }

class Equation {
 public:
  Equation(std::string_view text, const std::vector<Tensor>& operands, const Where& where)
      : text_(text), where_(where) {
    std::string s;
    for (char c : text)
      if (!std::isspace(static_cast<unsigned char>(c))) s += c;
    const size_t arrow = s.find("->");
    const std::string left = s.substr(0, arrow);
    std::vector<std::string> parts(1);
    for (char c : left) {
      if (c == ',') parts.emplace_back();
      else parts.back() += c;
    }
    if (parts.size() != operands.size())
      reject(fmt::format("it names {} operands and {} are given", parts.size(), operands.size()));
    for (size_t i = 0; i < parts.size(); ++i) widest_ = std::max(widest_, ellipsis_axes(parts[i], operands[i], i));
    for (size_t i = 0; i < parts.size(); ++i)
      terms.push_back({operands[i], labels_of(parts[i], ellipsis_axes(parts[i], operands[i], i))});
    if (arrow == s.npos) imply_output();
    else read_output(s.substr(arrow + 2));
    check_sizes();
  }

  std::vector<Term> terms;
  Labels output;

 private:
  [[noreturn]] void reject(const std::string& message) const {
    fail("einsum", fmt::format("\"{}\": {}", text_, message), where_);
  }

  void require_one_ellipsis(const std::string& part) const {
    if (part.find("...") != part.rfind("..."))
      reject(fmt::format("\"{}\" has \"...\" twice; it may be there once at most", part));
  }

  // How many axes "..." stands for in this operand.
  int ellipsis_axes(const std::string& part, const Tensor& t, size_t i) const {
    const size_t dots = part.find("...");
    require_one_ellipsis(part);
    const int letters = int(part.size()) - (dots == part.npos ? 0 : 3);
    if (letters > t.ndim() || (dots == part.npos && letters < t.ndim()))
      reject(fmt::format("operand {} has {} axes and \"{}\" names {}; \"...\" stands for axes without a name", i,
                         t.ndim(), part, letters));
    return dots == part.npos ? 0 : t.ndim() - letters;
  }

  // "..." is the last `axes` of the widest ellipsis, as broadcasting aligns them.
  Labels labels_of(const std::string& part, int axes) const {
    Labels out;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.compare(i, 3, "...") == 0) {
        for (int k = 0; k < axes; ++k) out.push_back(ellipsis_label + widest_ - axes + k);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        out.push_back(part[i]);
      } else {
        reject(fmt::format("'{}' is not a letter, a comma, \"->\" or \"...\"", part[i]));
      }
    }
    return out;
  }

  // Ellipsis axes, then the letters that appear once, in alphabetical order.
  void imply_output() {
    for (int i = 0; i < widest_; ++i) output.push_back(ellipsis_label + i);
    for (int c = 0; c < ellipsis_label; ++c) {
      int count = 0;
      for (const Term& t : terms) count += int(std::count(t.labels.begin(), t.labels.end(), c));
      if (count == 1) output.push_back(c);
    }
  }
  void read_output(const std::string& part) {
    if (widest_ > 0 && part.find("...") == part.npos) reject("the operands have \"...\" and the output has not");
    require_one_ellipsis(part);
    output = labels_of(part, widest_);
    for (int l : output) {
      bool known = false;
      for (const Term& t : terms) known = known || has(t.labels, l);
      if (!known) reject(fmt::format("no operand has the output's '{}'", char(l)));
      if (std::count(output.begin(), output.end(), l) > 1) reject(fmt::format("the output names '{}' twice", char(l)));
    }
  }

  void check_sizes() const {
    std::vector<std::pair<int, Dim>> sizes;  // label, size
    for (size_t i = 0; i < terms.size(); ++i)
      for (size_t a = 0; a < terms[i].labels.size(); ++a) {
        const int l = terms[i].labels[a];
        const Dim n = terms[i].t.shape()[a];
        auto known = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == l; });
        if (known == sizes.end()) sizes.emplace_back(l, n);
        else if (l >= ellipsis_label && known->second == 1) known->second = n;
        else if (known->second != n && !(l >= ellipsis_label && n == 1))
          reject(fmt::format("{} has size {} in operand {} ({}) and {} before: {} != {}",
                             l >= ellipsis_label ? "an axis of \"...\"" : fmt::format("'{}'", char(l)), n, i,
                             to_string(terms[i].t.spec()), known->second, n, known->second));
      }
  }

  std::string_view text_;
  const Where& where_;
  int widest_ = 0;
};

// A repeated label: the diagonal of its axes. Ellipsis axes of size 1 are dropped: multiplication broadcasts over them.
void simplify(Term& x, const std::vector<Term>& terms, const Labels& output) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    for (size_t j = i + 1; j < x.labels.size(); ++j)
      if (x.labels[i] == x.labels[j]) {
        const int l = x.labels[i];
        x.t = diagonal(x.t, 0, int(i), int(j));
        x.labels.erase(x.labels.begin() + int64_t(j));
        x.labels.erase(x.labels.begin() + int64_t(i));
        x.labels.push_back(l);
        return simplify(x, terms, output);
      }
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (x.labels[i] < ellipsis_label || x.t.shape()[i] != 1) continue;
    bool elsewhere = false;
    for (const Term& other : terms) elsewhere = elsewhere || (&other != &x && has(other.labels, x.labels[i]));
    if (!elsewhere) continue;
    x.t = squeeze(x.t, int64_t(i));
    x.labels.erase(x.labels.begin() + int64_t(i));
    return simplify(x, terms, output);
  }
}

// Sums over the axes that are no longer needed.
void sum_out(Term& x, const Labels& needed) {
  Axes axes;
  Labels kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(needed, x.labels[i])) kept.push_back(x.labels[i]);
    else axes.push_back(int64_t(i));
  }
  if (axes.empty()) return;
  const DType d = x.t.dtype();
  x.t = astype(sum(x.t, axes), d);
  x.labels = kept;
}

// `x` with its axes in the order of `labels`, with size 1 for those it does not have.
Tensor aligned(const Term& x, const Labels& labels) {
  Axes order, missing;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (has(x.labels, labels[i])) order.push_back(axis_of(x.labels, labels[i]));
    else missing.push_back(int64_t(i));
  }
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) same = same && order[i] == int64_t(i);
  const Tensor t = same ? x.t : transpose(x.t, order);
  return missing.empty() ? t : expand_dims(t, missing);
}

Term contract(Term a, Term b, const Labels& needed, const Labels& output) {
  Labels needed_a = needed, needed_b = needed;
  needed_a.insert(needed_a.end(), b.labels.begin(), b.labels.end());
  needed_b.insert(needed_b.end(), a.labels.begin(), a.labels.end());
  sum_out(a, needed_a);
  sum_out(b, needed_b);
  // The operand whose own axes come first in the output is the left one, so that the result needs no transposition.
  for (int l : output)
    if (has(a.labels, l) != has(b.labels, l)) {
      if (has(b.labels, l)) std::swap(a, b);
      break;
    }
  ContractionParams p;
  Labels left, right, batch;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const int l = a.labels[i];
    if (!has(b.labels, l)) {
      left.push_back(l);
    } else if (has(needed, l)) {
      batch.push_back(l);
      p.lhs_batch.push_back(int64_t(i));
      p.rhs_batch.push_back(axis_of(b.labels, l));
    } else {
      p.lhs_contract.push_back(int64_t(i));
      p.rhs_contract.push_back(axis_of(b.labels, l));
    }
  }
  for (int l : b.labels)
    if (!has(a.labels, l)) right.push_back(l);
  Labels labels = batch;
  labels.insert(labels.end(), left.begin(), left.end());
  labels.insert(labels.end(), right.begin(), right.end());
  if (!p.lhs_contract.empty()) return {dot_general(a.t, b.t, p), labels};
  const Tensor x = aligned(a, labels), y = aligned(b, labels);  // nothing to sum: a product with broadcasting
  return {is_bool(x.dtype()) ? logical_and(x, y) : multiply(x, y), labels};
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Where where) {
  CallerScope caller(where);
  if (operands.empty()) fail("einsum", "there must be at least one operand", where);
  Equation e(equation, operands, where);
  const DType dtype = CommonDtype(operands).dtype;
  for (Term& t : e.terms) {
    t.t = astype(t.t, dtype);
    simplify(t, e.terms, e.output);
  }
  Term result = e.terms[0];
  for (size_t i = 1; i < e.terms.size(); ++i) {
    Labels needed = e.output;
    for (size_t j = i + 1; j < e.terms.size(); ++j)
      needed.insert(needed.end(), e.terms[j].labels.begin(), e.terms[j].labels.end());
    result = contract(std::move(result), e.terms[i], needed, e.output);
  }
  sum_out(result, e.output);
  return aligned(result, e.output);
}

Tensor einsum(std::string_view equation, const Tensor& a, Where where) {
  return einsum(equation, std::vector<Tensor>{a}, where);
}
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where) {
  return einsum(equation, std::vector<Tensor>{a, b}, where);
}
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, const Tensor& c, Where where) {
  return einsum(equation, std::vector<Tensor>{a, b, c}, where);
}

}  // namespace rill
