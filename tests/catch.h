// The one header that tests include for Catch2: it picks version 3 where there is one, else Debian 12's 2.13.
// Tests use what both have: TEST_CASE, SECTION, CHECK, REQUIRE, CHECK_THROWS_AS, GENERATE, INFO, Approx.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
#include <string>

// Says that the test case that runs now cannot test what its name says, and why: it counts as skipped, not as passed
// (count.py), and CI fails on a skip that it does not expect.
void skip_case(const std::string& reason);
