// Hashing, comparing and printing attributes, all from their one list of fields.
#include "rill/devices/params/attrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "rill/devices/params/attr_list.h"

namespace rill {

namespace {
// Floats compare and hash by their bits, so that -0.0 differs from 0.0 and NaN equals itself. Open sizes are equal if
// they are the same expression: their concrete values are only those of one call.
bool same(Dim a, Dim b) { return a.is_open() == b.is_open() && (a.is_open() ? a.number() == b.number() : a == b); }
bool same(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const Dims* x = std::get_if<Dims>(&a))
    return std::ranges::equal(*x, std::get<Dims>(b), [](Dim m, Dim n) { return same(m, n); });
  if (const double* x = std::get_if<double>(&a)) return std::memcmp(x, &std::get<double>(b), sizeof *x) == 0;
  return a == b;
}
size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); }
size_t hash_value(const AttrValue& v) {
  return std::visit(
      [](const auto& x) -> size_t {
        using X = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<X, Dims>) {
          size_t h = x.size();
          for (Dim d : x) h = mix(h, d.is_open() ? d.number() : size_t(d.plain()));
          return h;
        } else if constexpr (std::is_same_v<X, double>) {
          size_t bits;
          std::memcpy(&bits, &x, sizeof bits);
          return bits;
        } else if constexpr (std::is_same_v<X, std::string>) {
          return std::hash<std::string>()(x);
        } else {
          return size_t(x);
        }
      },
      v);
}
std::string print(const AttrValue& v, bool open) {
  return std::visit(
      [open](const auto& x) -> std::string {
        using X = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<X, Dims>) return open ? with_open_sizes(Shape(x)) : to_string(Shape(x));
        else if constexpr (std::is_same_v<X, DType>) return std::string(name(x));
        else return fmt::format("{}", x);
      },
      v);
}
}  // namespace

AttrList list_of(const AttrsView& a) {
  class Collect final : public AttrVisitor {
   public:
    void field(const char* name, bool v) override { list.emplace_back(name, v); }
    void field(const char* name, int64_t v) override { list.emplace_back(name, v); }
    void field(const char* name, double v) override { list.emplace_back(name, v); }
    void field(const char* name, std::string_view v) override { list.emplace_back(name, std::string(v)); }
    void field(const char* name, DType v) override { list.emplace_back(name, v); }
    void field(const char* name, const Dims& v) override { list.emplace_back(name, v); }
    AttrList list;
  } collect;
  a.visit(collect);
  return std::move(collect.list);
}

namespace {
// The open sizes outside of lists, which list_of() shows as numbers; 0 for a field without one.
Dims open_numbers(const AttrsView& a) {
  class Look final : public AttrRewriter {
   public:
    void field(const char*, Dim& v) override { found.push_back(v.is_open() ? v : Dim(0)); }
    void field(const char*, Dims&) override {}
    void field(const char* name, FillValue& v, DType) override { field(name, v.whole); }
    Dims found;
  } look;
  if (a.type) a.type->rewrite(const_cast<void*>(a.data), look);  // it changes nothing
  return std::move(look.found);
}
}  // namespace

bool operator==(const AttrsView& a, const AttrsView& b) {
  if (a.type != b.type) return false;
  if (a.data == b.data) return true;
  AttrList x = list_of(a), y = list_of(b);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!same(x[i].second, y[i].second)) return false;
  return same(AttrValue(open_numbers(a)), AttrValue(open_numbers(b)));
}

size_t hash(const AttrsView& a) {
  size_t h = 0;
  for (const auto& [key, value] : list_of(a)) h = mix(h, hash_value(value));
  return mix(h, hash_value(open_numbers(a)));
}

namespace {
std::string print_all(const AttrsView& a, bool open) {
  std::string out;
  for (const auto& [key, value] : list_of(a))
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", key, print(value, open));
  return out;
}
}  // namespace
std::string to_string(const AttrsView& a) { return print_all(a, false); }
std::string with_open_sizes(const AttrsView& a) { return print_all(a, true); }

}  // namespace rill
