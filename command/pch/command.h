// Headers that nearly every file of the program includes, compiled once: CLI11 alone takes seconds.
#include <fmt/format.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>
