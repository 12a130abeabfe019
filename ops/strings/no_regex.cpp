// Regular expressions of a build without RE2. (The standard library's would overflow the stack on long strings.)
#include "rill/ops/strings.h"

namespace rill::strings {

namespace {
[[noreturn]] void fail_to_match(std::string_view op, const Where& where) {
  fail(op,
       "this build of rill has no regular expressions: install RE2 with its headers (apt-get install libre2-dev) and "
       "build again with -Dre2=enabled",
       where);
}
}  // namespace

Tensor regex_full_match(const Tensor&, std::string_view, Where where) { fail_to_match("regex_full_match", where); }
Tensor regex_replace(const Tensor&, std::string_view, std::string_view, bool, Where where) {
  fail_to_match("regex_replace", where);
}

Ragged regex_split(const Tensor&, std::string_view, Where where) { fail_to_match("regex_split", where); }

}  // namespace rill::strings
