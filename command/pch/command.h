// What nearly every file of the program includes, compiled once: CLI11 alone takes seconds.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <map>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <string>
#include <vector>
