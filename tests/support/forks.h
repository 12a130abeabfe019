// For one source of a test program that forks: only the first process is checked for leaks. A child of fork()
// lacks the threads that own memory, which would look leaked.
#pragma once
#include <unistd.h>

static const pid_t this_process = getpid();
extern "C" int __lsan_is_turned_off();  // declared here because only the sanitizer calls it
extern "C" int __lsan_is_turned_off() { return getpid() != this_process; }
