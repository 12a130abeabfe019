// Every defect and every surprise of oneDNN that rill works around: what happens, in which versions, where it is
// reported, and which test of tests/devices/test_onednn.cpp calls oneDNN itself, and so shows when the workaround can
// be removed. "Seen in 3.2" says which version was tried, not that later ones are right. Start at the list; a
// workaround that is one expression elsewhere is named there.
//
// 1. The weight gradient of a strided 1x1 convolution of f32, of NHWC with fewer input channels than a vector has lanes,
//    writes outside its workspace. Seen in 3.2; reported for 3.12 and newer: uxlfoundation/oneDNN#6035.
//    is_wrong(). Test: "a strided 1x1 weight gradient".
// 2. Kernels multiply padding as zeros, so an infinity or NaN in the other operand gives NaN where nothing should be
//    added: f16 and bf16 on AMX, and f32. Seen in 3.2; no report found. multiplies_padding(). Test: "padding beside
//    infinities".
// 3. The weight gradient of bf16 on AMX leaves a window's column that only reads padding uninitialised. Seen
//    in 3.2; no report found. clear_unmet(). Test: tests/ops/test_precision.cpp, "a convolution's window that reaches into
//    padding alone", with that call taken out; oneDNN by itself has not shown it yet.
// 4. A primitive divides its work among the threads that it was made for; where fewer run it, weight gradients lose parts
//    or wait for ever. By design: uxlfoundation/oneDNN#1201. detail::LibraryThreads (devices/threads.h) and the number
//    of threads in find_call()'s key. Test: "fewer threads than a primitive was made for".
// 5. Beside plain weights, convolutions take the reference kernel, 300 times slower; so does a product of which one
//    matrix serves a batch by a stride of 0. Seen in 3.2; by design. choose() and describe() in conv.cpp,
//    build_matmul() in gemm_halves.cpp. Test: "layouts that oneDNN has kernels for".
// 6. Strides along axes of one element, which say nothing, decide between a kernel and the reference. Seen in 3.2; by
//    design. normalised() in conv.cpp, build_matmul() in gemm_halves.cpp. Test: the same.
// 7. A product whose right operand is packed may be added up in another order than the plain one. Seen in 3.2; by
//    design. adds_up_like(). Test: "names of implementations", and tests/devices/test_packing.cpp.
// 8. Its relu loses NaN, and its tanh has other bits than rill's. By design. trace/fusion/epilogues.cpp runs activations
//    with rill's kernels. Test: "relu of NaN".
// 9. Kernels of 16 bits multiply channels by pairs. Beside the last of an odd number stands what follows in memory, another
//    pixel or group, with a weight of 0: an infinity there gives NaN here. Seen in 3.2 on AVX-512 with bf16; no report
//    found. multiplies_neighbours(). Test: "an infinity behind an odd number of channels". The weight gradient multiplies
//    pixels by pairs, with the same at the end of a row of an odd number. Test: tests/ops/test_conv.cpp, "an infinity at
//    the end of an odd row".
// 10. A convolution of bf16, along an axis that is padded in front and strided, writes outside its workspace where at least
//    as many elements as the padding, and at least three, follow the last window: garbage, and a damaged heap. Seen in
//    3.2 on AVX-512 with bf16; no report found. is_wrong() refuses halves wherever the front is padded and any input
//    follows the last window. Test: tests/ops/test_conv.cpp, "strided windows that leave the input's end".
// 11. Its kernel that copies windows out for a product of matrices, which is left where others do not serve, goes pixel by
//    pixel where a window of few channels is thousands of numbers wide: 1.5 s for 8,000 numbers convolved with as many, of
//    which rill's own takes 0.02. Seen in 3.2; no report found. crawls(). Test: "windows as wide as a signal".
// 12. The input gradient of bf16 of a strided window of one element is wrong where it has a dilation, which says nothing
//    there. Seen in 3.2 on AVX-512 with bf16; no report found. The dilation of such axes is left out (sliding(),
//    choose() in conv.cpp). Test: tests/ops/test_conv.cpp, "a window of one element that is strided and dilated".
// 13. The weight gradient in three dimensions, where in depth a window starts before the input and the first that starts
//    within it ends behind it: bf16 misses taps or meets them twice, and f32 reads and writes outside its memory. Seen in
//    3.2 on AVX-512; no report found. is_wrong() refuses some that are right. Test: tests/ops/test_conv.cpp, "windows as
//    deep as their input".
// 14. The weight gradient of bf16 of one input channel, where the stride along the last axis is greater than the input,
//    reads outside its memory. Seen in 3.2 on AVX-512 with bf16; no report found. is_wrong() refuses it for any number
//    of channels. Test: tests/ops/test_conv_fuzz.cpp, "strides greater than their input".
//
// What rill reads from the names of implementations, is_reference() and adds_up_like(), is held against what they do by
// the test "names of implementations", in whichever version it runs.
#pragma once
#include <string_view>

#include "rill/devices/cpu/product/conv_tiles.h"
#include "rill/devices/params/conv_params.h"

namespace rill::cpu::onednn {

// Its reference loops, slower than rill's own kernels by far.
constexpr bool is_reference(std::string_view name) { return name.starts_with("ref"); }
// Whether a product with a packed right operand has the same sums as the `plain` one: not in general if they are two
// implementations, nor for oneDNN's gemm, whose order of additions depends on the layout of the operand.
constexpr bool adds_up_like(std::string_view plain, std::string_view packed) {
  return packed == plain && packed.starts_with("brg");
}

// Whether its kernel writes outside its memory, or wrong numbers.
bool is_wrong(ConvResult which, DType dtype, const Sliding& s);

// Whether a convolution may multiply padding by elements of `beside` (its second operand): call it only if all of them
// are finite.
bool multiplies_padding(ConvResult which, const ConvParams& p, const Sliding& s);
// Whether elements of the first operand are multiplied by weights of 0 that are not theirs: call it only if they are
// all finite.
bool multiplies_neighbours(ConvResult which, DType dtype, const Sliding& s);
bool all_finite(const Tensor& operand);  // must fill a block of memory

// Whether a tap of the window, along a spatial axis, ever reads an element rather than padding.
bool meets_input(const Sliding& s, size_t axis, int64_t tap);
// Whether the implementation of this name is one that works pixel by pixel.
bool crawls(std::string_view name, const Sliding& s);

// Writes the zeros that are the gradient of taps that only read padding.
void clear_unmet(const ConvParams& p, const Sliding& s, Tensor& weight_gradient);

}  // namespace rill::cpu::onednn
