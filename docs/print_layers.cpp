// Prints docs/layers.md from the table of layers: ./dev docs.
#include <cstdio>

#include "../tests/support/layer_page.h"

int main() { std::fputs(layers::layer_page(layers::layer_table()).c_str(), stdout); }
