// What every public header begins with: a compiler that is too old stops here, with a line that says so, and not with
// thousands of lines about what it does not know. (After #error compilers go on; a file that is not there ends them.)
#pragma once

#if defined(_MSVC_LANG) && !defined(__clang__)
#error "rill needs g++ 12 or clang 16, or newer of these"
#include "rill needs g++ 12 or clang 16"
#elif __cplusplus < 202002L
#error "rill needs C++20: compile with -std=c++20, with g++ 12 or clang 16, or newer of these"
#include "rill needs -std=c++20"
#elif defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 16
#error "rill needs clang 16 or newer, or g++ 12 or newer"
#include "rill needs clang 16 or newer"
#elif !defined(__clang__) && defined(__GNUC__) && __GNUC__ < 12
#error "rill needs g++ 12 or newer, or clang 16 or newer"
#include "rill needs g++ 12 or newer"
#endif
