// Keeps LLVM's static objects from being destroyed: a program may end while the background thread still compiles with
// their data. Destructors of static objects are registered through this function; it is hidden, so only this library
// and the LLVM inside it call it.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): the ABI's name
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
