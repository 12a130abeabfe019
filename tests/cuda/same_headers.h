// Compares declarations of ours with NVIDIA's: for nvidia_headers.h, nccl_headers.h.
#pragma once
#include <cstddef>
#include <type_traits>

namespace rill::cuda {

// Functions are compatible if their parameters have equal sizes, and are pointers in the same positions.
template <class A, class B>
inline constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <class A, class B>
struct Same : std::false_type {};
template <class A, class... As, class B, class... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
struct Same<A (*)(As...), B (*)(Bs...)> : std::bool_constant<(alike<As, Bs> && ...)> {};

#define STRING(x) STRING_(x)
#define STRING_(x) #x
#define SAME(ours, theirs) static_assert((long long)(ours) == (long long)(theirs));
#define SAME_PLACE(Ours, ours, Theirs, theirs) SAME(offsetof(Ours, ours), offsetof(Theirs, theirs))

}  // namespace rill::cuda
