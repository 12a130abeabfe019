// main() for every tests/test_*.cpp, compiled once because Catch2 2.13's implementation takes ten seconds.
#define CATCH_CONFIG_RUNNER
#include "catch.h"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
