// Letters of UTF-8 text in a build without utf8proc.
#include "rill/ops/strings/records.h"

namespace rill::strings {

Tensor with_letters(std::string_view op, const Tensor&, Letters, const Where& where) {
  fail(op,
       "this build of rill has no tables of Unicode: install utf8proc with its headers (apt-get install "
       "libutf8proc-dev) and build again with -Dutf8proc=enabled",
       where);
}

}  // namespace rill::strings
