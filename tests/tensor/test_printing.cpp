// Printing against numpy 2.4: each literal is what str(np.array(...)) gave there.
#include <fmt/format.h>

#include <climits>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/ops/ops.h"
#include "rill/tensor/fmt.h"
#include "rill/tensor/print.h"
#include "rill/tensor/stream.h"
#include "rill/tensor/visit_dtype.h"

using namespace rill;

namespace {
template <class T>
std::string text(const T& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}
Tensor f(const std::vector<float>& v, const Shape& shape = {-1}) { return reshape(tensor(v), shape); }
Tensor d(const std::vector<double>& v) { return tensor(v); }
Tensor c(const std::vector<std::complex<double>>& v) { return tensor(v); }
}  // namespace

TEST_CASE("f32 prints the digits that tell its neighbours apart") {
  CHECK(text(f({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3})) == "[[1. 2. 3.]\n [4. 5. 6.]]");
  CHECK(text(f({0.1f, 0.25f, 3.0f})) == "[0.1  0.25 3.  ]");
  CHECK(text(f({1e-05f, 1.0f})) == "[1.e-05 1.e+00]");
  CHECK(text(f({100000000.0f, 1.0f})) == "[1.e+08 1.e+00]");
  CHECK(text(f({99999999.0f, 1.0f})) == "[1.e+08 1.e+00]");
  CHECK(text(f({16777216.0f, 0.5f})) == "[1.6777216e+07 5.0000000e-01]");
  CHECK(text(f({1234.567f, 0.001f})) == "[1.234567e+03 1.000000e-03]");
  CHECK(text(f({1000.0f, 1.0f})) == "[1000.    1.]");
  CHECK(text(f({1001.0f, 1.0f})) == "[1.001e+03 1.000e+00]");
  CHECK(text(f({NAN, 1.0f, 2.5f})) == "[nan 1.  2.5]");
  CHECK(text(f({INFINITY, -1.5f, 0.0f})) == "[ inf -1.5  0. ]");
  CHECK(text(f({-INFINITY, NAN})) == "[-inf  nan]");
  CHECK(text(f({NAN})) == "[nan]");
  CHECK(text(f({-0.0f, 0.0f})) == "[-0.  0.]");
  CHECK(text(f({1e-45f, 1.0f})) == "[1.e-45 1.e+00]");
  CHECK(text(f({3.4028235e+38f})) == "[3.4028235e+38]");
  CHECK(text(f({0.3333333432674408f, 0.6666666666666666f})) == "[0.33333334 0.6666667 ]");
  CHECK(text(f({0.3333333333333333f, -123456.789f})) == "[ 3.3333334e-01 -1.2345679e+05]");
  CHECK(text(f({0.0001f})) == "[0.0001]");
  CHECK(text(f({9e-05f})) == "[9.e-05]");
  CHECK(text(f({-INFINITY, 10000000000.0f, NAN})) == "[  -inf 1.e+10    nan]");
  CHECK(text(f({NAN, 1e-30f})) == "[   nan 1.e-30]");
  CHECK(text(f({1.0f}, {1, 1, 1, 1})) == "[[[[1.]]]]");
}

TEST_CASE("f64 prints eight digits, in one notation for all") {
  CHECK(text(d({0.1, 0.3333333333333333, 0.6666666666666666})) == "[0.1        0.33333333 0.66666667]");
  CHECK(text(d({1e+100, 1e-100})) == "[1.e+100 1.e-100]");
  CHECK(text(d({123456789.123, 1.0})) == "[1.23456789e+08 1.00000000e+00]");
  CHECK(text(d({1e-17, 1.0})) == "[1.e-17 1.e+00]");
  CHECK(text(d({0.30000000000000004})) == "[0.3]");
  CHECK(text(d({99999999.9, 5.0})) == "[9.99999999e+07 5.00000000e+00]");
  CHECK(text(d({0.123456785, 0.1234567849})) == "[0.12345678 0.12345678]");
  CHECK(text(d({1.999999999})) == "[2.]");
  CHECK(text(d({5e-324})) == "[5.e-324]");
  CHECK(text(d({-1.5e-07, 3.0})) == "[-1.5e-07  3.0e+00]");
  CHECK(text(d({1e+16, 1.0})) == "[1.e+16 1.e+00]");
  CHECK(text(d({12345.678901234})) == "[12345.67890123]");
  CHECK(text(d({0.0, 0.0})) == "[0. 0.]");
  CHECK(text(d({1e+22})) == "[1.e+22]");
  CHECK(text(d({2.5e-05, -HUGE_VAL})) == "[2.5e-05    -inf]");
  CHECK(text(reshape(arange(24).astype(f32), {2, 3, 4})) ==
        "[[[ 0.  1.  2.  3.]\n  [ 4.  5.  6.  7.]\n  [ 8.  9. 10. 11.]]\n\n [[12. 13. 14. 15.]\n  [16. 17. 18. 19.]\n  "
        "[20. 21. 22. 23.]]]");
  CHECK(text(arange(30).astype(f64) * 1.1) ==
        "[ 0.   1.1  2.2  3.3  4.4  5.5  6.6  7.7  8.8  9.9 11.  12.1 13.2 14.3\n 15.4 16.5 17.6 18.7 19.8 20.9 22.  "
        "23.1 24.2 25.3 26.4 27.5 28.6 29.7\n 30.8 31.9]");
  CHECK(text(reshape(arange(40).astype(f64) / 7.0, {2, 20})) ==
        "[[0.         0.14285714 0.28571429 0.42857143 0.57142857 0.71428571\n  0.85714286 1.         1.14285714 "
        "1.28571429 1.42857143 1.57142857\n  1.71428571 1.85714286 2.         2.14285714 2.28571429 2.42857143\n  "
        "2.57142857 2.71428571]\n [2.85714286 3.         3.14285714 3.28571429 3.42857143 3.57142857\n  3.71428571 "
        "3.85714286 4.         4.14285714 4.28571429 4.42857143\n  4.57142857 4.71428571 4.85714286 5.         "
        "5.14285714 5.28571429\n  5.42857143 5.57142857]]");
}

TEST_CASE("f16 prints its own shortest digits") {
  CHECK(text(tensor({0.1f, 2.f, 65504.f}, {.dtype = f16})) == "[1.00e-01 2.00e+00 6.55e+04]");
  CHECK(text(tensor({0.3333f, 2.f, 6.f}, {.dtype = f16})) == "[0.3333 2.     6.    ]");
  CHECK(text(tensor({1e-7f, 1.f}, {.dtype = f16})) == "[1.e-07 1.e+00]");
  CHECK(text(tensor(0.1f, {.dtype = f16})) == "0.1");
}

TEST_CASE("complex numbers") {
  CHECK(text(c({{1, 2}, {3.5, -4.25}})) == "[1. +2.j   3.5-4.25j]");
  CHECK(text(c({{1e10, 0}, {0, 1}})) == "[1.e+10+0.j 0.e+00+1.j]");
  CHECK(text(c({{HUGE_VAL, 1}, {0.5, -HUGE_VAL}})) == "[inf +1.j 0.5-infj]");
  CHECK(text(c({{std::nan(""), std::nan("")}, {1, 2}})) == "[nan+nanj  1. +2.j]");
}

TEST_CASE("strings are quoted as Python does") {
  CHECK(text(tensor({"ada", "grace"})) == "['ada' 'grace']");
  CHECK(text(tensor({{"it's", "a\"b"}, {"x\ny", "back\\slash"}})) == "[[\"it's\" 'a\"b']\n ['x\\ny' 'back\\\\slash']]");
  const std::string wide(92, 'a');
  CHECK(text(tensor({wide, std::string("b")})) == "['" + wide + "'\n 'b']");
}

TEST_CASE("scalars") {
  CHECK(text(tensor(5.f)) == "5.0");
  CHECK(text(tensor(0.1f)) == "0.1");
  CHECK(text(tensor(1e-5)) == "1e-05");
  CHECK(text(tensor(1e16)) == "1e+16");
  CHECK(text(tensor(123456789.125)) == "123456789.125");
  CHECK(text(tensor(-0.0)) == "-0.0");
  CHECK(text(tensor(3)) == "3");
  CHECK(text(tensor(true)) == "True");
  CHECK(text(tensor("ada")) == "ada");
  CHECK(text(tensor(1.5e300)) == "1.5e+300");
  CHECK(text(tensor(std::nan(""))) == "nan");
  CHECK(text(tensor(-INFINITY)) == "-inf");
  CHECK(text(tensor(0.0001f)) == "1e-04");
  CHECK(text(tensor(9.9999e15)) == "9999900000000000.0");
  CHECK(text(tensor(std::complex<float>(1, 2))) == "(1+2j)");
  CHECK(text(tensor(std::complex<double>(0, -2.5))) == "-2.5j");
  CHECK(text(tensor(std::complex<double>(-0.0, 1))) == "(-0+1j)");
}

TEST_CASE("long tensors are summarised and long lines broken") {
  CHECK(text(arange(1001)) == "[   0    1    2 ...  998  999 1000]");
  CHECK(text(arange(1000)(slice(0, 40))) ==
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29 30 31 32 33 34 "
        "35 36 37 38 39]");
  CHECK(text(reshape(arange(2000), {4, 500})) ==
        "[[   0    1    2 ...  497  498  499]\n [ 500  501  502 ...  997  998  999]\n [1000 1001 1002 ... 1497 1498 "
        "1499]\n [1500 1501 1502 ... 1997 1998 1999]]");
  CHECK(text(reshape(arange(2000), {500, 4})) ==
        "[[   0    1    2    3]\n [   4    5    6    7]\n [   8    9   10   11]\n ...\n [1988 1989 1990 1991]\n [1992 "
        "1993 1994 1995]\n [1996 1997 1998 1999]]");
  CHECK(text(reshape(arange(2000), {2, 10, 100})) ==
        "[[[   0    1    2 ...   97   98   99]\n  [ 100  101  102 ...  197  198  199]\n  [ 200  201  202 ...  297  298 "
        " 299]\n  ...\n  [ 700  701  702 ...  797  798  799]\n  [ 800  801  802 ...  897  898  899]\n  [ 900  901  902 "
        "...  997  998  999]]\n\n [[1000 1001 1002 ... 1097 1098 1099]\n  [1100 1101 1102 ... 1197 1198 1199]\n  [1200 "
        "1201 1202 ... 1297 1298 1299]\n  ...\n  [1700 1701 1702 ... 1797 1798 1799]\n  [1800 1801 1802 ... 1897 1898 "
        "1899]\n  [1900 1901 1902 ... 1997 1998 1999]]]");
  CHECK(text(reshape(arange(3000).astype(f32), {10, 10, 30}) / 7.f) ==
        "[[[0.0000000e+00 1.4285715e-01 2.8571430e-01 ... 3.8571429e+00\n   4.0000000e+00 4.1428571e+00]\n  "
        "[4.2857141e+00 4.4285712e+00 4.5714288e+00 ... 8.1428576e+00\n   8.2857141e+00 8.4285717e+00]\n  "
        "[8.5714283e+00 8.7142859e+00 8.8571424e+00 ... 1.2428572e+01\n   1.2571428e+01 1.2714286e+01]\n  ...\n  "
        "[3.0000000e+01 3.0142857e+01 3.0285715e+01 ... 3.3857143e+01\n   3.4000000e+01 3.4142857e+01]\n  "
        "[3.4285713e+01 3.4428570e+01 3.4571430e+01 ... 3.8142857e+01\n   3.8285713e+01 3.8428570e+01]\n  "
        "[3.8571430e+01 3.8714287e+01 3.8857143e+01 ... 4.2428570e+01\n   4.2571430e+01 4.2714287e+01]]\n\n "
        "[[4.2857143e+01 4.3000000e+01 4.3142857e+01 ... 4.6714287e+01\n   4.6857143e+01 4.7000000e+01]\n  "
        "[4.7142857e+01 4.7285713e+01 4.7428570e+01 ... 5.1000000e+01\n   5.1142857e+01 5.1285713e+01]\n  "
        "[5.1428570e+01 5.1571430e+01 5.1714287e+01 ... 5.5285713e+01\n   5.5428570e+01 5.5571430e+01]\n  ...\n  "
        "[7.2857140e+01 7.3000000e+01 7.3142860e+01 ... 7.6714287e+01\n   7.6857140e+01 7.7000000e+01]\n  "
        "[7.7142860e+01 7.7285713e+01 7.7428574e+01 ... 8.1000000e+01\n   8.1142860e+01 8.1285713e+01]\n  "
        "[8.1428574e+01 8.1571426e+01 8.1714287e+01 ... 8.5285713e+01\n   8.5428574e+01 8.5571426e+01]]\n\n "
        "[[8.5714287e+01 8.5857140e+01 8.6000000e+01 ... 8.9571426e+01\n   8.9714287e+01 8.9857140e+01]\n  "
        "[9.0000000e+01 9.0142860e+01 9.0285713e+01 ... 9.3857140e+01\n   9.4000000e+01 9.4142860e+01]\n  "
        "[9.4285713e+01 9.4428574e+01 9.4571426e+01 ... 9.8142860e+01\n   9.8285713e+01 9.8428574e+01]\n  ...\n  "
        "[1.1571429e+02 1.1585714e+02 1.1600000e+02 ... 1.1957143e+02\n   1.1971429e+02 1.1985714e+02]\n  "
        "[1.2000000e+02 1.2014286e+02 1.2028571e+02 ... 1.2385714e+02\n   1.2400000e+02 1.2414286e+02]\n  "
        "[1.2428571e+02 1.2442857e+02 1.2457143e+02 ... 1.2814285e+02\n   1.2828572e+02 1.2842857e+02]]\n\n ...\n\n "
        "[[3.0000000e+02 3.0014285e+02 3.0028571e+02 ... 3.0385715e+02\n   3.0400000e+02 3.0414285e+02]\n  "
        "[3.0428571e+02 3.0442856e+02 3.0457144e+02 ... 3.0814285e+02\n   3.0828571e+02 3.0842856e+02]\n  "
        "[3.0857144e+02 3.0871429e+02 3.0885715e+02 ... 3.1242856e+02\n   3.1257144e+02 3.1271429e+02]\n  ...\n  "
        "[3.3000000e+02 3.3014285e+02 3.3028571e+02 ... 3.3385715e+02\n   3.3400000e+02 3.3414285e+02]\n  "
        "[3.3428571e+02 3.3442856e+02 3.3457144e+02 ... 3.3814285e+02\n   3.3828571e+02 3.3842856e+02]\n  "
        "[3.3857144e+02 3.3871429e+02 3.3885715e+02 ... 3.4242856e+02\n   3.4257144e+02 3.4271429e+02]]\n\n "
        "[[3.4285715e+02 3.4300000e+02 3.4314285e+02 ... 3.4671429e+02\n   3.4685715e+02 3.4700000e+02]\n  "
        "[3.4714285e+02 3.4728571e+02 3.4742856e+02 ... 3.5100000e+02\n   3.5114285e+02 3.5128571e+02]\n  "
        "[3.5142856e+02 3.5157144e+02 3.5171429e+02 ... 3.5528571e+02\n   3.5542856e+02 3.5557144e+02]\n  ...\n  "
        "[3.7285715e+02 3.7300000e+02 3.7314285e+02 ... 3.7671429e+02\n   3.7685715e+02 3.7700000e+02]\n  "
        "[3.7714285e+02 3.7728571e+02 3.7742856e+02 ... 3.8100000e+02\n   3.8114285e+02 3.8128571e+02]\n  "
        "[3.8142856e+02 3.8157144e+02 3.8171429e+02 ... 3.8528571e+02\n   3.8542856e+02 3.8557144e+02]]\n\n "
        "[[3.8571429e+02 3.8585715e+02 3.8600000e+02 ... 3.8957144e+02\n   3.8971429e+02 3.8985715e+02]\n  "
        "[3.9000000e+02 3.9014285e+02 3.9028571e+02 ... 3.9385715e+02\n   3.9400000e+02 3.9414285e+02]\n  "
        "[3.9428571e+02 3.9442856e+02 3.9457144e+02 ... 3.9814285e+02\n   3.9828571e+02 3.9842856e+02]\n  ...\n  "
        "[4.1571429e+02 4.1585715e+02 4.1600000e+02 ... 4.1957144e+02\n   4.1971429e+02 4.1985715e+02]\n  "
        "[4.2000000e+02 4.2014285e+02 4.2028571e+02 ... 4.2385715e+02\n   4.2400000e+02 4.2414285e+02]\n  "
        "[4.2428571e+02 4.2442856e+02 4.2457144e+02 ... 4.2814285e+02\n   4.2828571e+02 4.2842856e+02]]]");
  CHECK(text(reshape(arange(60) * 1000000, {2, 30})) ==
        "[[       0  1000000  2000000  3000000  4000000  5000000  6000000  7000000\n   8000000  9000000 10000000 "
        "11000000 12000000 13000000 14000000 15000000\n  16000000 17000000 18000000 19000000 20000000 21000000 "
        "22000000 23000000\n  24000000 25000000 26000000 27000000 28000000 29000000]\n [30000000 31000000 32000000 "
        "33000000 34000000 35000000 36000000 37000000\n  38000000 39000000 40000000 41000000 42000000 43000000 "
        "44000000 45000000\n  46000000 47000000 48000000 49000000 50000000 51000000 52000000 53000000\n  54000000 "
        "55000000 56000000 57000000 58000000 59000000]]");
}

TEST_CASE("integers and bools") {
  CHECK(text(arange(5)) == "[0 1 2 3 4]");
  CHECK(text(arange(-3, 12)) == "[-3 -2 -1  0  1  2  3  4  5  6  7  8  9 10 11]");
  CHECK(text(tensor({{1, -20}, {300, 4}})) == "[[  1 -20]\n [300   4]]");
  CHECK(text(tensor({uint8_t(255), uint8_t(0)})) == "[255   0]");
  CHECK(text(tensor({uint64_t(18446744073709551615u)})) == "[18446744073709551615]");
  CHECK(text(tensor({INT64_MIN, int64_t(0)})) == "[-9223372036854775808                    0]");
  CHECK(text(tensor({true, false})) == "[ True False]");
  CHECK(text(tensor({{true}, {true}})) == "[[ True]\n [ True]]");
}

TEST_CASE("empty tensors and short axes") {
  CHECK(text(zeros({0})) == "[]");
  CHECK(text(zeros({2, 0, 3})) == "[]");
  CHECK(text(tensor({{{1.5f}}, {{-2.f}}})) == "[[[ 1.5]]\n\n [[-2. ]]]");
}

TEST_CASE("bf16, views and other types of rill print too") {
  CHECK(text(tensor({0.1f, 1.f, 3.140625f}, {.dtype = bf16})) == "[0.1  1.   3.14]");
  CHECK(text(transpose(tensor({{1, 2}, {3, 4}}))) == "[[1 3]\n [2 4]]");
  CHECK(fmt::format("{} {} {} {}", tensor({1, 2}), Shape{2, 3}, f32, Device("cpu:0")) == "[1 2] [2,3] f32 cpu:0");
  CHECK(text(Shape{2, 3}) + text(bf16) + text(Device("cpu:0")) + text(Spec{{4}, i64, false, Device()}) ==
        "[2,3]bf16cpu:0i64[4]");
  CHECK(fmt::format("{:>8}|", Shape{2}) == "     [2]|");
  CHECK(text(Tensor()) == "undefined");
}

TEST_CASE("print options are those of a call, of a scope, and of the process") {
  const Tensor x = tensor({3.14159265, 0.00002, 12.5});
  CHECK(to_string(x, {.precision = 2, .suppress = true}) == "[ 3.14  0.   12.5 ]");
  CHECK(to_string(tensor(3.14159265), {.precision = 2}) == "3.14");
  {
    const PrintScope outer({.precision = 1, .float_mode = FloatMode::fixed});
    CHECK(text(x) == "[3.1e+00 2.0e-05 1.2e+01]");
    {
      const PrintScope inner({.threshold = 2, .edge_items = 1});
      CHECK(text(x) == "[ 3.14159265 ... 12.5       ]");
      std::string elsewhere;
      std::thread([&] { elsewhere = text(x); }).join();
      CHECK(elsewhere == "[3.14159265e+00 2.00000000e-05 1.25000000e+01]");
    }
    CHECK(print_options().precision == 1);
    CHECK(text(tensor(0.25)) == "0.25");  // as in numpy, options are for arrays
  }
  set_print_options({.sign = '+'});
  CHECK(text(tensor({1, -2})) == "[+1 -2]");
  std::string elsewhere;
  std::thread([&] { elsewhere = text(tensor({1, -2})); }).join();
  CHECK(elsewhere == "[+1 -2]");
  CHECK(print_options() == PrintOptions{.sign = '+'});
  CHECK(print_options() != PrintOptions{});
  set_print_options({});
  CHECK(print_options() == PrintOptions{});
  CHECK(text(tensor({1, -2})) == "[ 1 -2]");
}

TEST_CASE("print options that make no sense are errors") {
  const Tensor x = ones({2});
  CHECK(has(message_of([&] { to_string(x, {.precision = -1}); }), "precision is -1. it must be from 0 to 1100"));
  CHECK(has(message_of([&] { to_string(x, {.precision = 1 << 30}); }), "from 0 to 1100"));
  CHECK(has(message_of([&] { set_print_options({.threshold = -1}); }), "threshold is -1"));
  CHECK(has(message_of([&] { const PrintScope s({.edge_items = -2}); }), "edge_items is -2"));
  CHECK(has(message_of([&] { const PrintScope s({.sign = 'x'}); }),
            "[PrintScope] sign is 'x'. it is one of '-', '+' and ' '"));
  CHECK(to_string(x, {.threshold = 0, .edge_items = INT64_MAX}) == "[1. 1.]");
  CHECK(to_string(arange(4), {.threshold = 0, .edge_items = 1, .line_width = 0}) == "[0\n ...\n 3]");
}
