// Regular expressions, by RE2: it takes linear time and bounded memory on any input, where a backtracking matcher may
// take exponential time or overflow the stack.
#include <fmt/format.h>
#include <re2/re2.h>

#include "rill/ops/strings.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {
namespace {

// Matches bytes of UTF-8. Safe to use from many threads.
class Pattern {
 public:
  Pattern(std::string_view op, std::string_view pattern, const Where& where)
      : regex_(re2::StringPiece(pattern.data(), pattern.size()), quiet()) {
    if (!regex_.ok())
      fail(op, fmt::format("the pattern '{}' is not well formed: {}", pattern.substr(0, 100), regex_.error()), where);
  }
  const RE2& operator*() const { return regex_; }

 private:
  static RE2::Options quiet() {
    RE2::Options o;
    o.set_log_errors(false);
    return o;
  }
  RE2 regex_;
};

}  // namespace

Tensor regex_full_match(const Tensor& x, std::string_view pattern, Where where) {
  CallerScope caller(where);
  const Pattern regex("regex_full_match", pattern, where);
  return mapped<bool>("regex_full_match", x, where, [&](const std::string& s) { return RE2::FullMatch(s, *regex); });
}

Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite, bool all, Where where) {
  CallerScope caller(where);
  const Pattern regex("regex_replace", pattern, where);
  const re2::StringPiece by(rewrite.data(), rewrite.size());
  if (std::string error; !(*regex).CheckRewriteString(by, &error))
    fail("regex_replace", fmt::format("the rewrite '{}' is not well formed: {}", rewrite.substr(0, 100), error), where);
  return mapped<std::string>("regex_replace", x, where, [&](std::string s) {
    if (all) RE2::GlobalReplace(&s, *regex, by);
    else RE2::Replace(&s, *regex, by);
    return s;
  });
}

}  // namespace rill::strings
