// docs/layers.md, from the table of layers.
#pragma once
#include "layer_table.h"

namespace layers {

inline std::string page_cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}
inline std::string page_name(const std::string& text) { return text.empty() ? "-" : "`" + text + "`"; }

inline std::string layer_page(const std::vector<LayerFamily>& table) {
  size_t count = 0;
  for (const LayerFamily& f : table) count += f.rows.size();
  std::string page =
      "# Layers\n\n"
      "Printed from tests/support/layer_table.h by `./dev docs`; do not edit. " +
      std::to_string(count) +
      " layers. [nn.md](nn.md) says how they are used, and the headers\nin nn/layers/ have their options. Space is in "
      "the "
      "middle, `[batch, space..., channels]`; torch's layers have it last.\nActivations without parameters are "
      "functions: "
      "`relu`, `gelu`, see [index.md](index.md).\n";
  for (const LayerFamily& f : table) {
    page += "\n## " + f.title +
            "\n\n| layer | what it gives | shapes | Keras | torch | what differs |\n|---|---|---|---|---|---|\n";
    for (const LayerRow& r : f.rows)
      page += "| `" + r.name + "` | " + page_cell(r.formula) + " | " + page_cell(r.shapes) + " | " +
              page_name(r.keras) + " | " + page_name(r.torch) + " | " + page_cell(r.differs) + " |\n";
  }
  return page + "\nNext: [Which functions there are](functions.md)\n";
}

}  // namespace layers
