// The public functions of letters beyond ASCII; unicode.cpp computes them.
#include "rill/ops/strings/records.h"

namespace rill::strings {

Tensor normalize(const Tensor& x, Form form, Where where) {
  CallerScope caller(where);
  return with_letters("normalize", x, Letters(form), where);
}
Tensor lower_utf8(const Tensor& x, Where where) {
  CallerScope caller(where);
  return with_letters("lower_utf8", x, Letters::lower, where);
}
Tensor upper_utf8(const Tensor& x, Where where) {
  CallerScope caller(where);
  return with_letters("upper_utf8", x, Letters::upper, where);
}
Tensor case_fold(const Tensor& x, Where where) {
  CallerScope caller(where);
  return with_letters("case_fold", x, Letters::fold, where);
}
Tensor strip_accents(const Tensor& x, Where where) {
  CallerScope caller(where);
  return with_letters("strip_accents", x, Letters::without_accents, where);
}

}  // namespace rill::strings
