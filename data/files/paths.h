// The files that a source reads: a path, a list of them, or patterns.
#pragma once
#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::data {

// Paths and patterns, as the shell's: * and ? within a name, [abc], {a,b}, ** for folders of any depth. A pattern means
// the files that it matches, sorted; a path that exists is no pattern. "-" is the standard input.
class Paths {
 public:
  template <class S>
    requires std::convertible_to<const S&, std::string>
  Paths(const S& path) : given_{std::string(path)} {}
  Paths(std::initializer_list<std::string> paths) : given_(paths) {}
  Paths(std::vector<std::string> paths) : given_(std::move(paths)) {}
  // A tensor of strings, as list_files() yields them.
  Paths(const Tensor& paths, Where where = Where::current());

  const std::vector<std::string>& given() const { return given_; }
  // The files: one at least. Throws where a pattern matches nothing. `op` as users know it.
  std::vector<std::string> files(const std::string& op, const Where& where) const;

 private:
  std::vector<std::string> given_;
};

namespace detail {
// The matching paths, sorted; throws if there are none.
std::vector<std::string> matches(const std::string& pattern, const std::string& op, const Where& where);
}  // namespace detail

}  // namespace rill::data

#pragma GCC visibility pop
