// librill_onednn: nothing but what it is linked to, oneDNN, which librill calls through it (onednn_library.cpp).
#include <dnnl.h>

extern "C" __attribute__((visibility("default"))) const char rill_onednn_version[] = RILL_VERSION;

// Called by nobody: a symbol, so that no linker drops the library.
extern "C" __attribute__((visibility("default"))) const void* rill_onednn_needs() {
  return reinterpret_cast<const void*>(&dnnl_version);
}
