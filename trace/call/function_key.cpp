// Compares the keys of calls, and describes how two differ; see function_key.h.
#include "rill/trace/call/function_key.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/function.h"
#include "rill/trace/graph/spec_text.h"

namespace rill {

bool FunctionKey::matches_but_sizes(const FunctionKey& o) const {
  if (leaves.size() != o.leaves.size() || !(device == o.device) || constants != o.constants) return false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Spec &a = leaves[i].spec(), &b = o.leaves[i].spec();
    if (a.dtype != b.dtype || a.weak != b.weak || !(a.device == b.device) || a.shape.size() != b.shape.size())
      return false;
  }
  return true;
}

bool FunctionKey::matches(const FunctionKey& o) const {
  if (leaves.size() != o.leaves.size() || !(device == o.device) || constants != o.constants) return false;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!(leaves[i].spec() == o.leaves[i].spec())) return false;
  return true;
}

void ReadKey::constant(const void* bytes, size_t n) {
  key_.constant_at.emplace_back(key_.constants.size(), n);
  key_.constants.append(static_cast<const char*>(bytes), n);
}
void ReadKey::structure(size_t n) { key_.constants.append(reinterpret_cast<const char*>(&n), sizeof n); }

std::string print_specs(const std::vector<Tensor>& leaves) {
  std::string s;
  for (const Tensor& t : leaves) s += (s.empty() ? "" : ", ") + placed_text(t.spec());
  return "(" + s + ")";
}

namespace {

std::string print_constant(const char* bytes, size_t n) {
  if (n == sizeof(int)) {
    int v;
    std::memcpy(&v, bytes, n);
    return fmt::format("{}", v);
  }
  if (n == sizeof(double)) {
    double d;
    int64_t i;
    std::memcpy(&d, bytes, n);
    std::memcpy(&i, bytes, n);
    return std::abs(i) < (int64_t(1) << 48) ? fmt::format("{}", i) : fmt::format("{}", d);
  }
  if (n == 1) return fmt::format("{}", int(*bytes));
  return fmt::format("{} bytes", n);
}

}  // namespace

std::string difference(const FunctionKey& now, const FunctionKey& before, const std::vector<ArgSpec>& signature) {
  if (now.leaves.size() != before.leaves.size())
    return fmt::format("{} tensors instead of {}", now.leaves.size(), before.leaves.size());
  for (size_t i = 0; i < now.leaves.size(); ++i) {
    const Spec &is = now.leaves[i].spec(), &was = before.leaves[i].spec();
    if (is == was) continue;
    std::string name = i < signature.size() && !signature[i].name.empty() ? " (" + signature[i].name + ")" : "";
    return fmt::format("tensor argument {}{} was {} and is {}{}", i, name, placed_text(was), placed_text(is),
                       is.weak != was.weak ? " (one is a C++ scalar)" : "");
  }
  if (now.constants.size() == before.constants.size() && now.constant_at == before.constant_at)
    for (size_t i = 0; i < now.constant_at.size(); ++i) {
      auto [at, n] = now.constant_at[i];
      if (std::memcmp(&now.constants[at], &before.constants[at], n) != 0)
        return fmt::format("C++ argument {} was {} and is {}", i, print_constant(&before.constants[at], n),
                           print_constant(&now.constants[at], n));
    }
  return now.constants != before.constants ? "a C++ argument has another value" : "the default device differs";
}

}  // namespace rill
