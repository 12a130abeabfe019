// The expressions of `eval` and the slices of `pt`. Start at evaluate(): a recursive descent parser that evaluates
// while it parses.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "debugger.h"

namespace command {
namespace {

using rill::Tensor;

struct Function {
  std::string name, help;
  std::function<Tensor(const Tensor&)> whole;
  std::function<Tensor(const Tensor&, int64_t)> along = nullptr;  // an axis
};

Tensor wide(const Tensor& x) {
  return rill::is_floating(x.dtype()) || rill::is_complex(x.dtype()) ? x : x.astype(rill::f64);
}

const std::vector<Function>& functions() {
  using namespace rill;
  static const std::vector<Function> all{
      {"sum", "sum(x), sum(x, axis)", [](const Tensor& x) { return rill::sum(x); },
       [](const Tensor& x, int64_t k) { return rill::sum(x, k); }},
      {"mean", "mean(x), mean(x, axis)", [](const Tensor& x) { return rill::mean(wide(x)); },
       [](const Tensor& x, int64_t k) { return rill::mean(wide(x), k); }},
      {"min", "min(x), min(x, axis)", [](const Tensor& x) { return rill::min(x); },
       [](const Tensor& x, int64_t k) { return rill::min(x, k); }},
      {"max", "max(x), max(x, axis)", [](const Tensor& x) { return rill::max(x); },
       [](const Tensor& x, int64_t k) { return rill::max(x, k); }},
      {"any", "any(x), any(x, axis)", [](const Tensor& x) { return rill::any(x); },
       [](const Tensor& x, int64_t k) { return rill::any(x, k); }},
      {"all", "all(x), all(x, axis)", [](const Tensor& x) { return rill::all(x); },
       [](const Tensor& x, int64_t k) { return rill::all(x, k); }},
      {"argmax", "argmax(x, axis)", [](const Tensor& x) { return rill::argmax(reshape(x, {-1}), 0); },
       [](const Tensor& x, int64_t k) { return rill::argmax(x, k); }},
      {"argmin", "argmin(x, axis)", [](const Tensor& x) { return rill::argmin(reshape(x, {-1}), 0); },
       [](const Tensor& x, int64_t k) { return rill::argmin(x, k); }},
      {"isnan", "where it is NaN", [](const Tensor& x) { return rill::isnan(x); }},
      {"isinf", "where it is infinite", [](const Tensor& x) { return rill::isinf(x); }},
      {"isfinite", "where it is neither", [](const Tensor& x) { return rill::isfinite(x); }},
      {"count", "how many are not zero: count(isnan(x))", [](const Tensor& x) { return rill::count_nonzero(x); }},
      {"where", "the places that are not zero, a row each", [](const Tensor& x) { return rill::argwhere(x); }},
      {"abs", "", [](const Tensor& x) { return rill::abs(x); }},
      {"sqrt", "", [](const Tensor& x) { return rill::sqrt(wide(x)); }},
      {"exp", "", [](const Tensor& x) { return rill::exp(wide(x)); }},
      {"log", "", [](const Tensor& x) { return rill::log(wide(x)); }},
      {"norm", "the root of the sum of squares",
       [](const Tensor& x) { return rill::sqrt(rill::sum(rill::square(rill::abs(wide(x)).astype(rill::f64)))); }},
      {"std", "the standard deviation",
       [](const Tensor& x) {
         const Tensor y = x.astype(rill::f64);
         return rill::sqrt(rill::mean(rill::square(y - rill::mean(y))));
       }},
      {"transpose", "", [](const Tensor& x) { return rill::transpose(x); }},
      {"f64", "in double precision", [](const Tensor& x) { return x.astype(rill::f64); }},
  };
  return all;
}

class Parser {
 public:
  Parser(const std::string& text, const std::function<Tensor(const std::string&)>& value_of)
      : text_(text), value_of_(value_of) {}

  Tensor all() {
    Tensor x = comparison();
    if (peek()) reject("does not belong here");
    return x;
  }
  std::vector<rill::Index> slices() {
    std::vector<rill::Index> list = brackets();
    if (peek()) reject("does not belong here");
    return list;
  }
  Tensor index(const Tensor& x, const std::vector<rill::Index>& list) {
    rill::Index i[8];
    if (list.size() > 8) throw LineError("more than eight axes cannot be indexed at once");
    std::copy(list.begin(), list.end(), i);
    return x(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], rill::Where());
  }

 private:
  [[noreturn]] void reject(const std::string& what) {
    const char c = peek();
    throw LineError(fmt::format("{} at {} of '{}' {}", c ? fmt::format("'{}'", c) : "the end", at_ + 1, text_, what));
  }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view sign) {
    peek();
    if (std::string_view(text_).substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }
  // Nesting deeper than the stack allows is not an expression of a person's.
  struct Depth {
    explicit Depth(Parser& p) : p(p) {
      if (++p.depth_ > 200) throw LineError("the expression is nested too deeply");
    }
    ~Depth() { --p.depth_; }
    Parser& p;
  };

  Tensor comparison() {
    const Depth deeper(*this);
    const Tensor x = terms();
    if (take("<=")) return x <= terms();
    if (take(">=")) return x >= terms();
    if (take("==")) return x == terms();
    if (take("!=")) return x != terms();
    if (take("<")) return x < terms();
    if (take(">")) return x > terms();
    return x;
  }
  Tensor terms() {
    Tensor x = factors();
    for (;;) {
      if (take("+")) x = x + factors();
      else if (take("-")) x = x - factors();
      else return x;
    }
  }
  Tensor factors() {
    Tensor x = sign();
    for (;;) {
      if (take("*")) x = x * sign();
      else if (take("/")) x = x / sign();
      else if (take("@")) x = rill::matmul(x, sign());
      else return x;
    }
  }
  Tensor sign() {
    const Depth deeper(*this);
    return take("-") ? -sign() : postfix();
  }
  Tensor postfix() {
    Tensor x = primary();
    while (peek() == '[') x = index(x, brackets());
    return x;
  }
  Tensor primary() {
    const char c = peek();
    if (take("(")) {
      const Tensor x = comparison();
      if (!take(")")) reject("should be ')'");
      return x;
    }
    if (take("`")) {
      const size_t end = text_.find('`', at_);
      if (end == text_.npos) throw LineError(fmt::format("a ` of '{}' is not closed", text_));
      const std::string name = text_.substr(at_, end - at_);
      at_ = end + 1;
      return value_of_(name);
    }
    if ((c >= '0' && c <= '9') || c == '.') return number();
    const std::string name = word();
    if (name.empty()) reject("is no number and no name. a name with other signs stands in backticks: `layer1/relu:0`");
    return peek() == '(' ? call(name) : value_of_(name);
  }
  std::string word() {
    const auto belongs = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
             c == ':';
    };
    peek();
    const size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Tensor number() {
    double x = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), x);
    if (error != std::errc()) reject("is no number");
    const std::string_view read(text_.data() + at_, size_t(end - text_.data()) - at_);
    at_ = size_t(end - text_.data());
    const bool whole = read.find_first_of(".eE") == read.npos && std::fabs(x) < 1e15;
    return whole ? rill::full({}, int64_t(x), rill::i64).astype(rill::i64) : rill::full({}, x, rill::f64);
  }
  Tensor call(const std::string& name) {
    take("(");
    const Tensor x = comparison();
    std::optional<int64_t> axis;
    if (take(",")) axis = integer();
    if (!take(")")) reject("should be ')'");
    for (const Function& f : functions()) {
      if (f.name != name) continue;
      if (axis && !f.along) throw LineError(fmt::format("{} takes one argument", name));
      return axis ? f.along(x, *axis) : f.whole(x);
    }
    std::string known;
    for (const Function& f : functions()) known += (known.empty() ? "" : ", ") + f.name;
    throw LineError(fmt::format("there is no function '{}'. there are {}", name, known));
  }
  int64_t integer() {
    const bool negative = take("-");
    peek();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc()) reject("should be an integer");
    at_ = size_t(end - text_.data());
    return negative ? -n : n;
  }
  std::vector<rill::Index> brackets() {
    std::vector<rill::Index> list;
    if (!take("[")) reject("should be '['");
    do {
      list.push_back(one_slice());
    } while (take(","));
    if (!take("]")) reject("should be ']'");
    return list;
  }
  rill::Index one_slice() {
    if (take("...")) return rill::ellipsis;
    const auto end_here = [&] { return peek() == ':' || peek() == ',' || peek() == ']' || !peek(); };
    std::optional<rill::Dim> begin, end;
    int64_t step = 1;
    if (!end_here()) {
      const int64_t i = integer();
      if (peek() != ':') return i;
      begin = i;
    }
    if (!take(":")) reject("should be an index or a slice, as [2], [1:5], [:, 0], [::2], [...]");
    if (!end_here()) end = integer();
    if (take(":") && !end_here()) step = integer();
    return rill::slice(begin, end, step);
  }

  const std::string& text_;
  const std::function<Tensor(const std::string&)>& value_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Tensor evaluate(const std::string& text, const std::function<Tensor(const std::string&)>& value_of) {
  return Parser(text, value_of).all();
}

std::pair<std::string, std::string> split_slices(const std::string& text) {
  const size_t open = text.find('[');
  if (open == text.npos || !text.ends_with(']')) return {text, ""};
  std::string name = text.substr(0, open);
  name.erase(name.find_last_not_of(' ') + 1);
  return {name, text.substr(open)};
}

Tensor sliced(const Tensor& x, const std::string& slices) {
  if (slices.empty()) return x;
  const std::function<Tensor(const std::string&)> none;
  Parser parser(slices, none);
  return parser.index(x, parser.slices());
}

const std::vector<std::pair<std::string, std::string>>& expression_functions() {
  static const auto all = [] {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Function& f : functions()) list.emplace_back(f.name, f.help);
    return list;
  }();
  return all;
}

}  // namespace command
