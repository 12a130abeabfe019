// Replaces every `new` of a program by a function of its own, which counts, or fails on demand. Included by one source
// of a program, which defines memory_for_new(): memory from malloc, or null, for which std::bad_alloc is thrown.
#pragma once
#include <cstdlib>
#include <new>

static void* memory_for_new(size_t bytes);

void* operator new(size_t bytes) {
  if (void* p = memory_for_new(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return memory_for_new(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return memory_for_new(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
