// Reports about elements: functions at the ends of their range, integers that overflow, conversions, complex numbers,
// special functions. Values are mpmath's, or exact.
#include "reports.h"

using namespace reports;

namespace {
constexpr double f32_error = 3e-7, f64_error = 2e-15;
constexpr int64_t least = INT64_MIN, largest = INT64_MAX;
}  // namespace

// --- Integers: division, shifts, powers, ranges ----------------------------------------------------------------------

REPORT("pytorch/pytorch#124644", "the least integer modulo -1 is 0, in vectors too", 0,
       IN(tensor({INT32_MIN, INT32_MIN, INT32_MIN, 7}), tensor(-1, i32)), GIVES(0, 0, 0, 0), remainder(v[0], v[1]))
REPORT("pytorch/pytorch#190041", "fmod of the least integer and -1", 0,
       IN(full({9}, INT32_MIN, i32), full({9}, -1, i32)), GIVES(0, 0, 0, 0, 0, 0, 0, 0, 0), fmod(v[0], v[1]))
TEST_CASE("the least integer of each dtype divided by -1 wraps around (numpy/numpy#21506)") {
  for (DType d : {i8, i16, i32, i64}) {
    INFO(name(d));
    const int64_t low = int64_t(iinfo(d).min);
    const Tensor x = full({5}, low, d), y = full({5}, -1, d);
    CHECK(floor_divide(x, y).to_vector<int64_t>() == std::vector<int64_t>(5, low));
    CHECK(remainder(x, y).to_vector<int64_t>() == std::vector<int64_t>(5, 0));
    CHECK(divmod(x, y).second.to_vector<int64_t>() == std::vector<int64_t>(5, 0));
    CHECK(array_equal(-x, x));
    CHECK(array_equal(abs(x), x));
  }
}
TEST_CASE("shifts by the width and more, both ways (numpy/numpy#2449)") {
  for (DType d : {i8, i16, i32, i64, u8, u16, u32, u64}) {
    INFO(name(d));
    const int64_t bits = int64_t(size_of(d)) * 8;
    for (int64_t by : {bits, bits + 4}) {
      const Tensor shift = full({2}, by, d), x = is_unsigned(d) ? tensor({5, 200}, d) : tensor({5, -5}, d);
      CHECK(left_shift(x, shift).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
      CHECK(right_shift(x, shift).to_vector<int64_t>() == std::vector<int64_t>{0, is_unsigned(d) ? 0 : -1});
    }
  }
}
TEST_CASE("powers of integers wrap modulo 2^64 (tensorflow/tensorflow#118202)") {
  CHECK(power(i64s({-47, -47, 3}), i64s({66, 1, 41})).to_vector<int64_t>() ==
        std::vector<int64_t>{-3898719529840714591, -47, int64_t(18026252303461234787u)});
}
REPORT("jax-ml/jax#5987", "powers of -1, 0 and 1 with large exponents", 0,
       IN(tensor({-1, 0, 1}, i32), tensor({{0}, {32}, {64}, {128}}, i32)), GIVES(1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1),
       power(v[0], v[1]))
TEST_CASE("a range whose length needs more than 31 bits to count (tensorflow/tensorflow#64081)") {
  const Tensor x = arange(1136033460, -2110457150, -1849827689, {.dtype = i32});
  CHECK(x.to_vector<int64_t>() == std::vector<int64_t>{1136033460, -713794229});
}
TEST_CASE("ranges of integers beyond 32 bits (ml-explore/mlx#4324)") {
  const int64_t big = int64_t(1) << 40;
  CHECK(arange(big, big + 3).to_vector<int64_t>() == std::vector<int64_t>{big, big + 1, big + 2});
  CHECK(arange(-big, 3 - big, 2).to_vector<int64_t>() == std::vector<int64_t>{-big, 2 - big});
  CHECK(arange(int64_t(INT32_MIN) - 1, int64_t(INT32_MIN) + 1).to_vector<int64_t>() ==
        std::vector<int64_t>{int64_t(INT32_MIN) - 1, INT32_MIN});
  CHECK(arange(largest - 2, largest).to_vector<int64_t>() == std::vector<int64_t>{largest - 2, largest - 1});
}
TEST_CASE("bins between integers that f64 cannot tell apart (numpy/numpy#11022)") {
  const int64_t x = int64_t(1) << 54;
  CHECK(digitize(i64s({x}), i64s({x - 1, x + 1})).to_vector<int64_t>() == std::vector<int64_t>{1});
  CHECK(digitize(i64s({x}), i64s({x + 1, x - 1})).to_vector<int64_t>() == std::vector<int64_t>{1});
  CHECK(searchsorted(i64s({x - 1, x + 1}), i64s({x, x + 1, x + 2})).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 1, 2});
}
REPORT("numpy/numpy#19138", "a cross product of u8 and i32", 0,
       IN(tensor({250, 166, 68}, i32), tensor({{195, 8, 9}}, u8)), GIVES(950, 11010, -30370), cross(v[0], v[1]))
TEST_CASE("sums of bytes have 64 bits, whatever the length of the axis (ml-explore/mlx#3898)") {
  for (int n : {1, 2}) {
    CHECK(prod(full({n}, 2, i8), 0).dtype() == i64);
    CHECK(prod(full({n}, 2, u8), 0).dtype() == u64);
    CHECK(prod(full({n}, true, boolean), 0).dtype() == i64);
    CHECK(sum(full({n}, true, boolean), 0).dtype() == i64);
  }
}
TEST_CASE("cumsum with a dtype converts first and adds up there (jax-ml/jax#37991)") {
  const Tensor x = tensor({-1, 0, 1}, i32), b = x.astype(boolean);
  CHECK(cumsum(b).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2});
  CHECK(cumsum(b, {.dtype = i8}).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2});
  CHECK(cumsum(b, {.dtype = f32}).to_vector<double>() == Numbers{1, 1, 2});
  CHECK(cumsum(x, {.dtype = f32}).to_vector<double>() == Numbers{-1, -1, 0});
  CHECK(cumsum(x, {.dtype = i8}).to_vector<int64_t>() == std::vector<int64_t>{-1, -1, 0});
}
TEST_CASE("an update of 2^32 - 1 keeps its value in u32 (jax-ml/jax#15505)") {
  const uint32_t all_ones = 0xffffffffu;
  CHECK(zeros({1}, u32).at(0).set(tensor(all_ones)).to_vector<uint32_t>()[0] == all_ones);
  CHECK(zeros({1}, u32).at(0).set(int64_t(all_ones)).to_vector<uint32_t>()[0] == all_ones);
}
REPORT("numpy/numpy#6685", "rounding leaves a large integral f64 as it is", 0,
       IN(f64s({4607998452777363968.0, -0x1p62})), GIVES(4607998452777363968.0, -0x1p62), round(v[0]))

// --- Quotients and remainders of floats ------------------------------------------------------------------------------

REPORT("pytorch/pytorch#24861", "a remainder of a large f32", 0, IN(f32s({2749682432.0}), f32s({36})), GIVES(20),
       remainder(v[0], v[1]))
REPORT("pytorch/pytorch#193753", "remainders whose quotient overflows, in vectors", 0,
       IN(full({9}, 1e308, f64), full({9}, 0.5, f64)), GIVES(0, 0, 0, 0, 0, 0, 0, 0, 0), fmod(v[0], v[1]))
REPORT("pytorch/pytorch#77742", "floor division that overflows is infinite", 0,
       IN(full({9}, 1e308, f64), full({9}, -0.25, f64)), GIVES(-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf),
       floor_divide(v[0], v[1]))
REPORT("jax-ml/jax#37752", "floor division of floats by zero", 0, IN(f32s({-2, -1, 0, 1, 2}), zeros({5})),
       GIVES(-inf, -inf, NaN, inf, inf), floor_divide(v[0], v[1]))
TEST_CASE("floor division and remainder of numbers near a multiple, in every sign (numpy/numpy#6127)") {
  // exact fractions of the operands as their dtype holds them
  struct Row {
    DType d;
    double signs[2], quotient, rest;
  };
  for (const Row& r : {Row{f64, {1, 1}, 77, 5.999999999999965e-08}, Row{f64, {1, -1}, -78, -3.441071348220595e-22},
                       Row{f64, {-1, 1}, -78, 3.441071348220595e-22}, Row{f64, {-1, -1}, 77, -5.999999999999965e-08},
                       Row{f32, {1, 1}, 78, 2.4158453015843406e-13}, Row{f32, {1, -1}, -79, -5.999975627446474e-08},
                       Row{f32, {-1, 1}, -79, 5.999975627446474e-08}, Row{f32, {-1, -1}, 78, -2.4158453015843406e-13},
                       Row{f16, {1, -1}, -79, 0}, Row{f16, {-1, -1}, 79, 0}}) {
    INFO(name(r.d) << " " << r.signs[0] << " " << r.signs[1]);
    const Tensor a = tensor({r.signs[0] * 78 * 6e-8}, r.d), b = tensor({r.signs[1] * 6e-8}, r.d);
    CHECK(floor_divide(a, b).to_vector<double>() == Numbers{r.quotient});
    CHECK(within(remainder(a, b).to_vector<double>(), {r.rest}, 1e-7));
    const auto [q, m] = divmod(a, b);
    CHECK(q.to_vector<double>() == Numbers{r.quotient});
    CHECK(within(m.to_vector<double>(), {r.rest}, 1e-7));
  }
}
REPORT("ml-explore/mlx#4108", "divmod of floats rounds down", 0, IN(f32s({-7, 7, -7.5, 7.5}), f32s({2, -2, 2, -2})),
       GIVES(-4, -4, -4, -4, 1, -1, 0.5, -0.5), concat({divmod(v[0], v[1]).first, divmod(v[0], v[1]).second}))
REPORT("ml-explore/mlx#3976", "remainders of halves take the divisor's sign", 0,
       IN(tensor({-1., -1., -3., 1., 3.}, bf16), tensor({3., 7., 8., -5., -8.}, bf16)), GIVES(2, 6, 5, -4, -5),
       remainder(v[0], v[1]))
REPORT("numpy/numpy#25097", "zero divided by a subnormal number is zero", 0,
       IN(zeros({9}, f64), full({9}, 5e-324, f64)), GIVES(0, 0, 0, 0, 0, 0, 0, 0, 0), v[0] / v[1])

// --- Elementary functions --------------------------------------------------------------------------------------------

REPORT("numpy/numpy#26055", "squares and roots by power", f32_error, IN(f32s({0, 1.1, 2, 12e12, -10, inf, -inf})),
       GIVES(0, 1.2100000524520879708, 4, 1.4400000511180804537e26, 100, inf, inf), power(v[0], 2.0))
REPORT("numpy/numpy#26055", "roots by power, of f64", f64_error, IN(f64s({0, 1.1, 2, 12e12, inf})),
       GIVES(0, 1.0488088481701515893, 1.4142135623730950488, 3464101.6151377545871, inf), power(v[0], 0.5))
REPORT("numpy/numpy#19192", "exp beyond what f16 holds", 0, IN(f16s({11.0899, -20, 0})), GIVES(inf, 0, 1), exp(v[0]))
REPORT("numpy/numpy#19192", "exp far beyond what f32 holds", 0, IN(f32s({100, 1e19, -1e19, -110})),
       GIVES(inf, inf, 0, 0), exp(v[0]))
REPORT("numpy/numpy#20448", "exp2 at the ends", 0, IN(f64s({NaN, inf, -inf, 2000, -2000, 1023, -1074})),
       GIVES(NaN, inf, 0, inf, 0, 0x1p1023, 0x1p-1074), exp2(v[0]))
REPORT("jax-ml/jax#28040", "ldexp by the largest powers of two", 0,
       IN(f32s({0.5, 0x1p-126, 0x1.fffffep127, 0x1p-149}), tensor({128, 252, -252, 149}, i32)),
       GIVES(0x1p127, 0x1p126, 0x1.fffffep-125, 1), ldexp(v[0], v[1]))
REPORT("jax-ml/jax#38105", "heaviside takes y at zero only, and NaN of x", 0,
       IN(f64s({NaN, -inf, -1, 0, 1, inf}), f64s({NaN, 3, NaN, NaN, NaN, NaN})), GIVES(NaN, 0, 0, NaN, 1, 1),
       heaviside(v[0], v[1]))
REPORT("jax-ml/jax#31689", "rounding to more decimals than there are", f32_error, IN(f32s({1.5, -2.25, 1e20, -3e38})),
       GIVES(1.5, -2.25, 1e20, -3e38), round(v[0], 22))
REPORT("numpy/numpy#27784", "sinc of zero in half precision", 0, IN(f16s({0, 1})), GIVES(1, 0), round(sinc(v[0]), 3))
REPORT("numpy/numpy#12519", "clip with bounds in the wrong order gives the upper one", 0, IN(f32s({0.5, 1, 2, -1})),
       GIVES(0, 0, 0, 0), clip(v[0], 1, 0))
REPORT("ml-explore/mlx#4222", "nan_to_num of halves gives their largest number", 0,
       IN(tensor({inf, 6.875, NaN, -inf}, bf16)), GIVES(0x1.fep127, 6.875, 0, -0x1.fep127), nan_to_num(v[0]))
REPORT("ml-explore/mlx#4222", "nan_to_num of f16", 0, IN(f16s({inf, NaN, -inf})), GIVES(65504, 0, -65504),
       nan_to_num(v[0]))
REPORT("microsoft/onnxruntime#10491", "softplus where the exponential is small", f32_error, IN(f32s({-12.3392})),
       GIVES(4.3767583592370630069e-6), softplus(v[0]))
REPORT("numpy/numpy#15127", "a signalling NaN is a NaN in every function", 0,
       IN(bitcast(tensor({0x7ff0000000000001}), f64)), GIVES(NaN, NaN, NaN, NaN),
       concat({v[0] + 1, sqrt(v[0]), maximum(v[0], 1), sin(v[0])}))
REPORT("ml-explore/mlx#4090", "-0 counts as false in any and all", 0, IN(full({70}, -0.0, f32), f16s({-0.0, 1})),
       GIVES(0, 0, 1, 0), stack({any(v[0]), all(v[0]), any(v[1]), all(v[1])}))
REPORT("pytorch/pytorch#195851", "running sums keep the sign of zeros", 0, IN(f32s({-0.0, -0.0, 1, -0.0})),
       GIVES(1, 1, 0, 0), signbit(cumsum(v[0])))
TEST_CASE("true and false in half precision (ml-explore/mlx#3229)") {
  for (DType d : {f16, bf16, f8_e4m3fn, f8_e5m2}) {
    CHECK(tensor({true, false}).astype(d).astype(f32).to_vector<double>() == Numbers{1, 0});
    CHECK(full({2}, true, d).astype(f32).to_vector<double>() == Numbers{1, 1});
  }
}

// --- Conversions -----------------------------------------------------------------------------------------------------

REPORT("tinygrad/tinygrad#17087", "f16 ends at 65520", 0, IN(f32s({65536, 65520, 65519.996, -65520})),
       GIVES(inf, inf, 65504, -inf), v[0].astype(f16))
REPORT("pytorch/pytorch#150756", "f8_e4m3fn ends between 464 and 480, the tie to even", 0,
       IN(tensor({448., 449., 464., 466., -464.}, f32)), GIVES(448, 448, 448, NaN, -448),
       v[0].astype(f8_e4m3fn).astype(f32))
TEST_CASE("no NaN becomes an infinity where its payload is rounded off (tenstorrent/tt-metal#51557)") {
  std::vector<uint32_t> bits;
  for (uint32_t low = 1; low < 0x800000; low = low * 2 + 1)
    bits.insert(bits.end(), {0x7f800000 | low, 0xff800000 | low});
  bits.push_back(0x7f800001);
  const Tensor x = bitcast(tensor(bits), f32);
  for (DType d : {bf16, f16, f8_e4m3fn, f8_e5m2}) {
    INFO(name(d));
    CHECK(all(isnan(x.astype(d).astype(f32))).item<bool>());
  }
  std::vector<uint16_t> halves;
  for (uint32_t payload = 1; payload < 128; ++payload) halves.insert(halves.end(), {uint16_t(0x7f80 | payload)});
  const Tensor y = bitcast(tensor(halves), bf16);
  CHECK(all(isnan(-y)).item<bool>());
  CHECK(all(isnan(y.astype(f64))).item<bool>());
  CHECK(all(isnan(abs(y) + 1)).item<bool>());
}
REPORT("tenstorrent/tt-metal#15889", "a mantissa that rounds up carries into the exponent", 0,
       IN(f32s({7.9999, 255.9, 0x1.ffp0, 64.5})), GIVES(8, 256, 2, 64.5), v[0].astype(bf16))

// --- Complex numbers -------------------------------------------------------------------------------------------------

REPORT("numpy/numpy#18378", "zero to powers with a positive real part is zero", 0,
       IN(c128s({0, 0}), c128s({1, 4, 0.5, -3, 2, 0})), GIVES(0, 0, 0, 0, 0, 0), power(v[0], v[1]))
REPORT("numpy/numpy#5687", "tanh of a large complex number", 0, IN(c128s({616.47292227535877, 53.814558958179042})),
       GIVES(1, 0), tanh(v[0]))
REPORT("numpy/numpy#2321", "tanh of 1000 as a complex number", 0, IN(c128s({1000, 0, -1000, 0})), GIVES(1, 0, -1, 0),
       tanh(v[0]))
REPORT("rawify/Complex.js#44", "tanh where its imaginary part is nearly lost", f64_error, IN(c128s({100, 100})),
       GIVES(1, -2.417106192846054949e-87), tanh(v[0]))
REPORT("pytorch/pytorch#122042", "the arc tangent of a complex infinity", f64_error, IN(c128s({inf, 0, -inf, 0})),
       GIVES(1.5707963267948966192, 0, -1.5707963267948966192, 0), atan(v[0]))
REPORT("numpy/numpy#25087", "the sign of zero tells the side of a branch cut", 0, IN(c128s({-0.0, -1, 0, -1})),
       GIVES(1, 0), signbit(real(atanh(v[0]))))
REPORT("ml-explore/mlx#4092", "isinf looks at both parts", 0, IN(c128s({0, inf, inf, 0, -inf, NaN, 0, -inf, 3, 4})),
       GIVES(1, 1, 1, 1, 0), isinf(v[0]))
REPORT("ml-explore/mlx#4092", "isfinite looks at both parts", 0, IN(c128s({0, inf, inf, 0, NaN, 1, 3, 4})),
       GIVES(0, 0, 0, 1), isfinite(v[0]))
REPORT("ml-explore/mlx#4260", "the variance of complex numbers is real", f64_error,
       IN(c128s({1, 2, -3, -4, 0.5, -0.25})), GIVES(9.2916666666666666667), var(v[0]))
REPORT("numpy/numpy#4156", "the 3-norm of complex numbers", f64_error, IN(c128s({6, 7, -6, 7})),
       GIVES(11.615898132184913206), norm(v[0], {.ord = 3}))
REPORT("numpy/numpy#30816", "the norm of many complex numbers", 1e-14, IN(arange(20000, f64) / 50000),
       GIVES(46.186289480753917779), norm(complex(v[0], roll(flip(v[0]), {12345}))))

// --- Special functions -----------------------------------------------------------------------------------------------

REPORT("scipy/scipy#22705", "J0 far out", f64_error, IN(f64s({1e15, 1e30})),
       GIVES(6.1566386468850216773e-9, -5.5890030166861464145e-16), j0(v[0]))
REPORT("scipy/scipy#22705", "J1 and Y0 far out", f64_error, IN(f64s({1e15})),
       GIVES(2.4468665123771326465e-8, 2.4468665123771323387e-8), concat({j1(v[0]), y0(v[0])}))
REPORT("scipy/scipy#25199", "J0 of a tiny number is 1", 0, IN(f64s({1e-200, 5e-324, 0})), GIVES(1, 1, 1), j0(v[0]))
REPORT("scipy/scipy#25823", "I0 and I1 just below overflow", 5e-15, IN(f64s({713})),
       GIVES(6.7051282636709966729e307, 6.7004245591864025018e307), concat({i0(v[0]), i1(v[0])}))
REPORT("numpy/numpy#11205", "I0 of one zero keeps its shape", 0, IN(f64s({0})), GIVES(1), i0(v[0]))
REPORT("scipy/scipy#3761", "the incomplete Beta function of a tiny x", 1e-13,
       IN(f64s({0.0342}), f64s({171}), f64s({8.42313169354797e-21})), GIVES(0.24999999999999999948),
       betainc(v[0], v[1], v[2]))
REPORT("scipy/scipy#4244", "the incomplete Beta function, a tiny and b large", 1e-13,
       IN(f64s({0.0002742794749792665}), f64s({289206.03125}), f64s({1.639984034231756e-56})),
       GIVES(0.96887087821960449219), betainc(v[0], v[1], v[2]))
REPORT("scipy/scipy#12796", "the incomplete Beta function near 1", 1e-13,
       IN(f64s({4}), f64s({99997}), f64s({0.0001947841578892121})), GIVES(0.99999499999999996725),
       betainc(v[0], v[1], v[2]))
REPORT("scipy/scipy#22682", "the incomplete Beta function of tiny parameters", 1e-13,
       IN(f64s({1e-20, 1e-15}), f64s({1e-21, 1e-16})), GIVES(0.090909090909090905982, 0.090909090909090900942),
       betainc(v[0], v[1], f64s({0.5})))
REPORT("scipy/scipy#22682", "the same in f32", 1e-6, IN(f32s({1e-20, 1e-15}), f32s({1e-21, 1e-16})),
       GIVES(0.090909090909090909091, 0.090909092002883449332), betainc(v[0], v[1], f32s({0.5})))
REPORT("scipy/scipy#20972", "the incomplete Gamma function at its edges", 0,
       IN(f64s({0, 0, 1, 1, 1, -1, inf, inf, NaN, 1, 0.5}), f64s({1, inf, 0, inf, -1, 1, 1, inf, 1, NaN, -0.005})),
       GIVES(1, 1, 0, 1, NaN, NaN, 0, NaN, NaN, NaN, NaN), igamma(v[0], v[1]))
REPORT("scipy/scipy#12758", "erfinv of small numbers", f64_error,
       IN(f64s({1e-20, 1e-15, 1e-10, 1e-8, 0.9e-7, 1.1e-7, 1e-6})),
       GIVES(8.8622692545275796504e-21, 8.8622692545275808251e-16, 8.8622692545275804594e-11, 8.8622692545275805539e-9,
             7.9760423290748389103e-8, 9.7484961799803695284e-8, 8.8622692545298998721e-7),
       erfinv(v[0]))
REPORT("scipy/scipy#16291", "Lambert's W of a tiny number is that number", 0, IN(f64s({1e-200, -1e-200, 5e-324, 0})),
       GIVES(1e-200, -1e-200, 5e-324, 0), lambertw(v[0]))
REPORT("scipy/scipy#22601", "logsumexp of infinities", 0,
       IN(f64s({inf, inf}), f64s({inf, -inf}), f64s({-inf, -inf}), f64s({inf, NaN}), f64s({-inf, 3})),
       GIVES(inf, inf, -inf, NaN, 3),
       stack({logsumexp(v[0]), logsumexp(v[1]), logsumexp(v[2]), logsumexp(v[3]), logsumexp(v[4])}))
REPORT("pytorch/pytorch#6190", "digamma of f32 beside a pole", f32_error, IN(f32s({-1.99999994})),
       GIVES(-8388607.0772153197985), digamma(v[0]))
REPORT("pytorch/pytorch#140701", "the third derivative of lgamma at negative numbers", 1e-6,
       IN(f32s({-1.2297606, -2.5341392, -0.4952267, -0.1345852})),
       GIVES(161.04592440713291445, -6.8597828251086463341, 0.094639925751058689759, 816.85817462656579414),
       polygamma(2, v[0]))
REPORT("pytorch/pytorch#143648", "polygamma of order 0 is digamma", f32_error, IN(f32s({2})),
       GIVES(0.42278433509846713939), polygamma(0, v[0]))
REPORT("pytorch/pytorch#186640", "polygamma is infinite at its poles", 0, IN(f32s({0, -1, -2, -3})),
       GIVES(inf, inf, inf, inf), polygamma(1, v[0]))
REPORT("tenstorrent/tt-metal#51976", "lgamma just above a half", f32_error, IN(f32s({0.502, 0.505, 0.51, 0.52, 0.74})),
       GIVES(0.56844782040895282978, 0.56260873898502388867, 0.5529738361925451372, 0.53405992956149615883,
             0.21426753570453163825),
       lgamma(v[0]))
REPORT("jax-ml/jax#37751", "zero times the logarithm of NaN is NaN", 0, IN(f64s({0, 0, 0}), f64s({NaN, 0, inf})),
       GIVES(NaN, 0, 0), xlogy(v[0], v[1]))
REPORT("jax-ml/jax#37751", "zero times log(1 + NaN) is NaN", 0, IN(f64s({0, 0, 0}), f64s({NaN, -1, inf})),
       GIVES(NaN, 0, 0), xlog1py(v[0], v[1]))
