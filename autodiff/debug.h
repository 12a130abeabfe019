// Finding where a gradient goes wrong.
#pragma once

#pragma GCC visibility push(default)

namespace rill::debug {

// From now on, on this thread, a backward walk throws where a cotangent first becomes NaN or infinite: the error names
// the op whose rule gave it, the line that recorded the op, how many elements there are, and the ranges of the
// cotangent that came and of the operands and results that the tape kept. Each cotangent is read once more, so walks
// are slower. Walks inside a traced function have no numbers to look at while they are traced, and are not checked.
void check_gradients(bool on = true);
bool checks_gradients();

}  // namespace rill::debug

#pragma GCC visibility pop
