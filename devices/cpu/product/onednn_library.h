// The library that is oneDNN, where librill opens it itself (onednn_library.cpp).
#pragma once

namespace rill::cpu::onednn {

// oneDNN's own function of that name. Opens the library at the first call; throws rill::Error if that fails.
void* library_function(const char* name);

}  // namespace rill::cpu::onednn
