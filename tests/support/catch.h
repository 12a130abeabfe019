// The one header that tests include for Catch2: it selects version 3 if there is one, else Debian 12's 2.13.
// Tests use what both have: TEST_CASE, SECTION, CHECK, REQUIRE, CHECK_THROWS_AS, GENERATE, INFO, Approx; and
// contains_text.
#pragma once
#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
inline auto contains_text(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
#else
#include <catch2/catch.hpp>
inline auto contains_text(const std::string& text) { return Catch::Contains(text); }
#endif

// Says that the current test case cannot test what its name says, and why: it counts as skipped, not as passed
// (count.py), and CI fails on an unexpected skip.
void skip_case(const std::string& reason);
