// Finding where a gradient goes wrong.
#pragma once

#pragma GCC visibility push(default)

namespace rill::debug {

// From now on, on this thread, a backward walk throws at the first cotangent that is NaN or infinite: the error names the
// op whose rule computed it, the line that recorded the op, how many elements are affected, and the ranges of the
// incoming cotangent and of the operands and results that the tape kept. Each cotangent is read once more, so walks are
// slower. Walks inside a traced function have no numbers while they are traced, and are not checked.
void check_gradients(bool on = true);
bool checks_gradients();

}  // namespace rill::debug

#pragma GCC visibility pop
