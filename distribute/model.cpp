// See model.h.
#include "rill/distribute/model.h"

#include <cstring>

#include "rill/distribute/engine/calls.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::distribute {
namespace {

// A hash of bytes, eight at a time.
class Hash {
 public:
  void add(const void* bytes, size_t n) {
    const char* at = static_cast<const char*>(bytes);
    uint64_t word = 0;
    for (; n >= 8; n -= 8, at += 8) std::memcpy(&word, at, 8), mix(word);
    word = n;
    std::memcpy(&word, at, n);
    mix(word + n);
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  void add(const Tensor& t) {
    add(to_string(t.spec()));
    if (t.dtype() == DType::string)
      for (const std::string& s : t.to_vector<std::string>()) add(s);
    else add(t.rep()->data, size_t(int64_t(t.size())) * size_of(t.dtype()));
  }
  uint64_t value() const { return h_; }

 private:
  void mix(uint64_t word) {
    h_ = (h_ ^ word) * 0x9e3779b97f4a7c15u;
    h_ ^= h_ >> 29;
  }
  uint64_t h_ = 14695981039346656037u;
};

bool same_on_all(uint64_t hash, const Group& group, const Where& where) {
  const std::vector<int64_t> all = all_gather(tensor({int64_t(hash)}), group, where).to_vector<int64_t>();
  for (const int64_t h : all)
    if (h != all[0]) return false;
  return true;
}

}  // namespace

void detail::broadcast_variables(const NamedVariables& variables, int64_t root, const Group& group,
                                 const Where& where) {
  CallerScope caller(where, "distribute::broadcast");
  PauseTapes pause;
  for (const auto& [path, v] : variables) {
    Variable to = v;
    to.assign(distribute::broadcast(v.value(where), root, group, where));
  }
}

bool detail::same_variables(const NamedVariables& variables, const Group& group, const Where& where) {
  CallerScope caller(where, "distribute::is_same");
  PauseTapes pause;
  Hash hash;
  for (const auto& [path, v] : variables) hash.add(path), hash.add(dense(on_host(v.value(where))));
  return same_on_all(hash.value(), group, where);
}

bool is_same(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where, "distribute::is_same");
  PauseTapes pause;
  Hash hash;
  hash.add(dense(on_host(x)));
  return same_on_all(hash.value(), group, where);
}

}  // namespace rill::distribute
