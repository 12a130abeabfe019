// A small loader of object files: it makes the code that LLVM emitted executable, whether it was compiled just now or
// loaded from the disk cache, in a few microseconds and without LLVM.
#pragma once
#include <memory>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill::kernel {

// The address of function `name` of a relocatable ELF64 object for this processor; its code and constants live as long
// as a copy of the pointer does. Every offset in the file is checked: a damaged file, or one that needs a feature that
// this loader lacks, throws rill::Error.
std::shared_ptr<void> load_code(std::string_view file, std::string_view name);

}  // namespace rill::kernel

#pragma GCC visibility pop
