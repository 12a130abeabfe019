// For the one source of a test program that forks: leaks are looked for in the first process alone. A child of fork()
// lacks the threads that hold what it would miss.
#pragma once
#include <unistd.h>

static const pid_t this_process = getpid();
extern "C" int __lsan_is_turned_off();  // declared here for it is called by the sanitizer alone
extern "C" int __lsan_is_turned_off() { return getpid() != this_process; }
