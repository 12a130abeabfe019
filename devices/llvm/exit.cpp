// LLVM's objects of static storage are never destroyed: a program may end while the background thread still compiles,
// and what the compiler uses must then be there to the last. Destructors of such objects are registered through this
// function; hidden, it is the one that this library and the LLVM inside it call, and nobody else.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): the ABI's name
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
