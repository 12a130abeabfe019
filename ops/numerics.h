// Finding where a NaN or an infinity comes from. autodiff/debug.h does the same for cotangents, with what a tape knows.
#pragma once
#include <string_view>

#include "rill/tensor/callback.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill::debug {

struct NumericsOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool nan = true, infinity = true;  // what counts as bad
  // Called with what the error would say, and the op goes on; none: rill::Error is thrown. It must not read a Variable
  // that the call assigns.
  Callback<void(std::string_view)> log = {};
};

// While it lives, the ops of this thread are checked: see check_numerics().
class NumericsScope {
 public:
  explicit NumericsScope(const NumericsOptions& options = {});
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;

 private:
  NumericsOptions options_;
  const NumericsScope* const outer_;
  friend struct NumericsNow;
};

// auto check = debug::check_numerics(); while `check` lives, on this thread, the first op that makes a NaN or an
// infinity of finite operands throws: the error names the op, the line that called it (in a traced function the line
// and the name scope of the node), and the range, the NaNs and the infinities of the result and of each operand.
// Operands that are not finite already, an infinite mask say, are left in peace, and so are tensors made of no operand.
// Ops of backward walks and of vmap are checked as well. Traced functions run op by op meanwhile, with the same bits as
// compiled; each result is read once more, so all is slower. What is computed while a function is traced, of constants
// alone, is checked then. The innermost scope counts.
[[nodiscard]] inline NumericsScope check_numerics(const NumericsOptions& options = {}) {
  return NumericsScope(options);
}
// Whether the ops of this thread are checked now.
bool checks_numerics();

}  // namespace rill::debug

#pragma GCC visibility pop
