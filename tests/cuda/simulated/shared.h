// Functions of the simulated driver that the other simulated libraries use.
#pragma once
#include <cstddef>
#include <functional>

// The start of the simulated NVRTC's PTX: then the same as for a cubin, as text, two letters for each byte.
inline constexpr const char* ptx_begins = "//simulated PTX ";

// The host's address of device memory with at least `bytes` from there on, or nullptr.
char* simulated_memory(const void* device, size_t bytes);
// Appends work to a stream; a result other than 0 becomes the stream's error.
int simulated_work(void* stream, std::function<int()> work);
// Whether a test wants this call of `name` to fail (rill_simulated_fail).
bool simulated_failure(const char* name);
// The device of a stream, and of this thread's context; -1 if it has none.
int simulated_device_of(void* stream);
int simulated_device();
