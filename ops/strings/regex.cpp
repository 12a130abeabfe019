// Regular expressions, by RE2: it takes linear time and bounded memory on any input, where a backtracking matcher may
// take exponential time or overflow the stack.
#include <fmt/format.h>
#include <re2/re2.h>

#include "rill/ops/creation.h"
#include "rill/ops/strings.h"
#include "rill/ops/strings/records.h"
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
  if (is_later(x)) return apply1(regex_full_match_op, {&x}, RegexParams{std::string(pattern), "", true}, where);
  return mapped<bool>("regex_full_match", x, where, [&](const std::string& s) { return RE2::FullMatch(s, *regex); });
}

Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite, bool all, Where where) {
  CallerScope caller(where);
  const Pattern regex("regex_replace", pattern, where);
  const re2::StringPiece by(rewrite.data(), rewrite.size());
  if (std::string error; !(*regex).CheckRewriteString(by, &error))
    fail("regex_replace", fmt::format("the rewrite '{}' is not well formed: {}", rewrite.substr(0, 100), error), where);
  if (is_later(x))
    return apply1(regex_replace_op, {&x}, RegexParams{std::string(pattern), std::string(rewrite), all}, where);
  return mapped<std::string>("regex_replace", x, where, [&](std::string s) {
    if (all) RE2::GlobalReplace(&s, *regex, by);
    else RE2::Replace(&s, *regex, by);
    return s;
  });
}

Ragged regex_split(const Tensor& x, std::string_view pattern, Where where) {
  CallerScope caller(where);
  const Pattern regex("regex_split", pattern, where);
  require_texts("regex_split", x, where);
  const Texts texts(x, x.shape());
  std::vector<std::string> parts;
  std::vector<int64_t> ends{0};
  for (int64_t i = 0; i < x.size(); ++i) {
    const re2::StringPiece all(texts[i]);
    size_t begin = 0;
    re2::StringPiece found;
    for (size_t at = 0; at <= all.size() && (*regex).Match(all, at, all.size(), RE2::UNANCHORED, &found, 1);) {
      const size_t first = size_t(found.data() - all.data()), last = first + found.size();
      if (first > begin) parts.emplace_back(texts[i], begin, first - begin);
      begin = last;
      at = found.empty() ? last + 1 : last;
    }
    if (begin < all.size()) parts.emplace_back(texts[i], begin);
    ends.push_back(int64_t(parts.size()));
  }
  const EagerScope eager;
  return {tensor(parts), {tensor(ends)}, x.ndim() == 0};
}

}  // namespace rill::strings
