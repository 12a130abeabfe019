// Files for TensorBoard's projector; see embeddings.h. What it reads:
// tensorboard/plugins/projector/projector_plugin.py.
#include "rill/serialize/tensorboard/embeddings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <vector>

#include "rill/ops/ops.h"
#include "rill/serialize/files.h"
#include "rill/serialize/png_image.h"
#include "rill/serialize/tensorboard/pixels.h"
#include "rill/serialize/text_fields.h"
#include "rill/serialize/utf8.h"

namespace rill::summary {
namespace {

// A text in a row of columns that tabs part.
void append_cell(std::string& out, std::string_view text) {
  for (char c : text) out += c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
}

// What JavaScript's trim() takes away.
bool is_blank(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

// A row of `cells`. The projector leaves out those that are blank, and would give each that follows the label of its
// neighbour: a character without a width holds the place.
void append_row(std::string& out, const std::vector<std::string_view>& cells, const Where& where) {
  bool blank = true;
  std::string row;
  for (size_t c = 0; c < cells.size(); ++c) {
    const auto text = from_utf8(cells[c]);
    if (!text) fail(writer_op, "the text '" + std::string(cells[c]) + "' of an embedding is no UTF-8", where);
    blank = blank && std::all_of(text->begin(), text->end(), is_blank);
    append_cell(row, cells[c]);
    if (c + 1 < cells.size()) row += '\t';
  }
  if (blank) append_utf8(out, 0x200B);
  out += row + '\n';
}

std::string rows_of(const Tensor& vectors) {
  const std::vector<float> values = vectors.to_vector<float>();
  const size_t width = size_t(vectors.dim(1));
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    char digits[32];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, values[i]).ptr);
    out += (i + 1) % width ? '\t' : '\n';
  }
  return out;
}

// A header where there are several columns: the projector takes the first line of one column for a text.
std::string metadata_of(const EmbeddingOptions& options, size_t rows, const Where& where) {
  std::string out;
  const auto& columns = options.metadata;
  for (const auto& [name, texts] : columns)
    if (texts.size() != rows)
      fail(writer_op,
           "the column '" + name + "' of an embedding has " + std::to_string(texts.size()) + " texts for " +
               std::to_string(rows) + " rows",
           where);
  std::vector<std::string_view> cells(columns.size());
  const auto add = [&](auto&& text_of) {
    std::transform(columns.begin(), columns.end(), cells.begin(), text_of);
    append_row(out, cells, where);
  };
  if (columns.size() > 1) add([](auto& column) -> std::string_view { return column.first; });
  for (size_t r = 0; r < rows && !columns.empty(); ++r)
    add([r](auto& column) -> std::string_view { return column.second[r]; });
  return out;
}

// All pictures on one, in rows from the left, as many across as down.
std::string sprite_of(const Tensor& sprites, const Where& where) {
  const size_t n = size_t(sprites.dim(0)), h = size_t(sprites.dim(1)), w = size_t(sprites.dim(2)),
               c = size_t(sprites.dim(3));
  const size_t across = size_t(std::ceil(std::sqrt(double(n)))), down = across;
  if (across * std::max(h, w) > 8192)
    fail(writer_op,
         "the sprites of an embedding make a picture of " + std::to_string(down * h) + "x" +
             std::to_string(across * w) + ". the projector shows 8192x8192 at most: make them smaller",
         where);
  const std::vector<uint8_t> pixels = pixels_of(sprites, ImageScale::unit);
  std::vector<uint8_t> all(across * w * down * h * c);
  for (size_t i = 0; i < n; ++i)
    for (size_t y = 0; y < h; ++y)
      std::copy_n(&pixels[(i * h + y) * w * c], w * c, &all[(((i / across) * h + y) * across + i % across) * w * c]);
  return encode_png(all, int64_t(down * h), int64_t(across * w), int(c));
}

// --- The configuration -----------------------------------------------------------------------------------------------

using Kind = TextField::Kind;

const TextField* find(const TextField& message, std::string_view name) {
  const auto at = std::find_if(message.fields.begin(), message.fields.end(), [&](auto& f) { return f.name == name; });
  return at == message.fields.end() ? nullptr : &*at;
}
std::string text_of(const TextField& message, std::string_view name) {
  const TextField* field = find(message, name);
  return field ? field->value : "";
}
bool is_embedding(const TextField& f, const std::string& name) {
  return f.name == "embeddings" && text_of(f, "tensor_name") == name;
}

// The folder for an embedding of that name: what could lead elsewhere, or be no name, is replaced; two names have two
// folders, of which the configuration knows those that are taken.
std::string folder_for(const std::string& name, const std::vector<TextField>& config) {
  std::string plain;
  for (char c : name)
    plain +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'
            ? c
            : '_';
  if (plain.find_first_not_of('.') == plain.npos) plain = "_" + plain;
  const auto taken = [&](const std::string& folder) {
    return std::any_of(config.begin(), config.end(), [&](const TextField& f) {
      return f.name == "embeddings" && !is_embedding(f, name) && text_of(f, "tensor_path").starts_with(folder + "/");
    });
  };
  std::string one = plain;
  for (int i = 1; taken(one); ++i) one = plain + "_" + std::to_string(i);
  return one;
}

TextField entry_of(const std::string& name, const std::string& folder, const Tensor& vectors,
                   const EmbeddingOptions& options) {
  TextField entry{"embeddings", Kind::message};
  entry.fields = {{"tensor_name", Kind::text, name}, {"tensor_path", Kind::text, folder + "/tensors.tsv"}};
  for (int64_t size : vectors.shape()) entry.fields.push_back({"tensor_shape", Kind::word, std::to_string(size)});
  if (!options.metadata.empty()) entry.fields.push_back({"metadata_path", Kind::text, folder + "/metadata.tsv"});
  if (options.sprites.defined()) {
    TextField sprite{"sprite", Kind::message};
    sprite.fields.push_back({"image_path", Kind::text, folder + "/sprites.png"});
    for (int axis : {2, 1})
      sprite.fields.push_back({"single_image_dim", Kind::word, std::to_string(int64_t(options.sprites.dim(axis)))});
    entry.fields.push_back(std::move(sprite));
  }
  return entry;
}

}  // namespace

void write_embedding(const std::string& folder, const std::string& name, const Tensor& vectors,
                     const EmbeddingOptions& options, const Where& where) {
  if (vectors.ndim() != 2 || vectors.dim(0) < 1 || vectors.dim(1) < 1)
    fail(writer_op, "an embedding is [n,d] with one vector or more. operand: " + to_string(vectors.spec()), where);
  if (!is_utf8(name)) fail(writer_op, "the name '" + name + "' of an embedding is no UTF-8", where);
  const size_t rows = size_t(vectors.dim(0));
  const bool has_sprites = options.sprites.defined();
  if (has_sprites && size_t(options.sprites.dim(0)) != rows)
    fail(writer_op,
         "an embedding of " + std::to_string(rows) + " rows has sprites " + to_string(options.sprites.spec()), where);
  const std::string metadata = metadata_of(options, rows, where);
  const std::string sprite = has_sprites ? sprite_of(options.sprites, where) : "";

  const std::string start = (folder.empty() ? "." : folder) + "/", path = start + "projector_config.pbtxt";
  const FolderLock lock(folder);
  std::vector<TextField> config;
  if (std::error_code error; std::filesystem::exists(path, error))
    config =
        read_text_fields(read_file(path, writer_op, where), path, "the projector's configuration", writer_op, where);
  const std::string inside = folder_for(name, config);
  write_file(start + inside + "/tensors.tsv", rows_of(vectors), writer_op, where);
  if (!options.metadata.empty()) write_file(start + inside + "/metadata.tsv", metadata, writer_op, where);
  if (has_sprites) write_file(start + inside + "/sprites.png", sprite, writer_op, where);
  std::erase_if(config, [&](const TextField& f) { return is_embedding(f, name); });
  config.push_back(entry_of(name, inside, vectors, options));
  write_file(path, to_text(config), writer_op, where);
}

}  // namespace rill::summary
