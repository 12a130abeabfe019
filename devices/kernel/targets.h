// Which instruction sets vector code is compiled for. Include it before anything of Highway: it trims Highway's
// own list, so that each source with vector code is compiled at most three times (x86: baseline, AVX2, AVX-512).
//
// The rule behind the list: a vector kernel gives the same bits on every instruction set, and fma(a, b, c) is
// rounded once. So a target without FMA hardware is only useful as the last resort, where fma() calls the C
// library lane by lane: SSSE3 and SSE4 are left out, and so are AVX-512 subsets that change no
// arithmetic (VBMI2, Zen 4, Sapphire Rapids) and the scalable vectors of SVE, which a struct cannot hold.
//
// Sources must be compiled with -ffp-contract=off: the compiler would otherwise fuse a*b+c on the targets that
// have FMA, and only there. tests/ops/test_math.cpp fails without that flag.
#pragma once

// 23 and 24 SVE2_128, 25 SVE_256, 26 SVE2, 27 SVE. A source that defines HWY_DISABLED_TARGETS itself leaves them out
// too.
#if defined(__aarch64__)
#define RILL_SVE_TARGETS 0xF800000LL
#else
#define RILL_SVE_TARGETS 0
#endif

#ifndef HWY_DISABLED_TARGETS
#if defined(__x86_64__) || defined(__i386__)
// Bits of hwy/detect_targets.h: 4 AVX3_SPR, 5 AVX10_2, 6 AVX3_ZEN4, 7 AVX3_DL, 11 SSE4, 12 SSSE3. By number,
// because Highway 1.0 has no names for some of them.
#define HWY_DISABLED_TARGETS 0x18F0LL
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS RILL_SVE_TARGETS
#endif
#endif

// Under a sanitizer, only the baseline target, and functions that are always inlined have no checks of their own: each
// is a line or two, and with checks on every reference a source takes minutes to compile. Their callers are checked,
// and so are their loads and stores.
#if defined(__SANITIZE_ADDRESS__)
#define RILL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RILL_SANITIZED 1
#endif
#endif
#ifdef RILL_SANITIZED
#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include <hwy/base.h>
#undef HWY_INLINE
#define HWY_INLINE inline __attribute__((always_inline, no_sanitize("address"), no_sanitize("undefined")))
#endif
