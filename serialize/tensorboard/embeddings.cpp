// Files for TensorBoard's projector; see embeddings.h. What it reads:
// tensorboard/plugins/projector/projector_plugin.py.
#include "rill/serialize/tensorboard/embeddings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "rill/ops/ops.h"
#include "rill/serialize/files.h"
#include "rill/serialize/png_image.h"
#include "rill/serialize/tensorboard/pixels.h"

namespace rill::summary {
namespace {

constexpr std::string_view op = "summary::Writer";

// A text in a row of columns that tabs part.
void append_cell(std::string& out, std::string_view text) {
  for (char c : text) out += c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
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
      fail(op,
           "the column '" + name + "' of an embedding has " + std::to_string(texts.size()) + " texts for " +
               std::to_string(rows) + " rows",
           where);
  if (columns.size() > 1)
    for (size_t c = 0; c < columns.size(); ++c) {
      append_cell(out, columns[c].first);
      out += c + 1 < columns.size() ? '\t' : '\n';
    }
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns.size(); ++c) {
      append_cell(out, columns[c].second[r]);
      out += c + 1 < columns.size() ? '\t' : '\n';
    }
  return out;
}

// All pictures on one, in rows from the left, as many across as down.
std::string sprite_of(const Tensor& sprites, const Where& where) {
  const size_t n = size_t(sprites.dim(0)), h = size_t(sprites.dim(1)), w = size_t(sprites.dim(2)),
               c = size_t(sprites.dim(3));
  const size_t across = size_t(std::ceil(std::sqrt(double(n)))), down = across;
  if (across * std::max(h, w) > 8192)
    fail(op,
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

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

}  // namespace

// The name as a folder's: what could lead elsewhere, or be no name, is replaced; two names have two folders.
std::string EmbeddingFiles::folder_of(const std::string& name) {
  if (const auto known = folders_.find(name); known != folders_.end()) return known->second;
  std::string plain;
  for (char c : name)
    plain +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'
            ? c
            : '_';
  if (plain.find_first_not_of('.') == plain.npos) plain = "_" + plain;
  std::string one = plain;
  auto taken = [&](const auto& entry) { return entry.second == one; };
  for (int i = 1; std::any_of(folders_.begin(), folders_.end(), taken); ++i) one = plain + "_" + std::to_string(i);
  return folders_[name] = one;
}

void EmbeddingFiles::write(const std::string& name, const Tensor& vectors, const EmbeddingOptions& options,
                           const Where& where) {
  if (vectors.ndim() != 2 || vectors.dim(0) < 1 || vectors.dim(1) < 1)
    fail(op, "an embedding is [n,d] with one vector or more. operand: " + to_string(vectors.spec()), where);
  const size_t rows = size_t(vectors.dim(0));
  const bool has_sprites = options.sprites.defined();
  if (has_sprites && size_t(options.sprites.dim(0)) != rows)
    fail(op, "an embedding of " + std::to_string(rows) + " rows has sprites " + to_string(options.sprites.spec()),
         where);
  const std::string metadata = metadata_of(options, rows, where);
  const std::string sprite = has_sprites ? sprite_of(options.sprites, where) : "";

  std::lock_guard lock(mutex_);
  const std::string inside = folder_of(name), base = (folder_.empty() ? "." : folder_) + "/" + inside + "/";
  std::string entry =
      "embeddings {\n  tensor_name: " + quoted(name) + "\n  tensor_path: " + quoted(inside + "/tensors.tsv") + "\n";
  for (int64_t size : vectors.shape()) entry += "  tensor_shape: " + std::to_string(size) + "\n";
  write_file(base + "tensors.tsv", rows_of(vectors), op, where);
  if (!options.metadata.empty()) {
    write_file(base + "metadata.tsv", metadata, op, where);
    entry += "  metadata_path: " + quoted(inside + "/metadata.tsv") + "\n";
  }
  if (has_sprites) {
    write_file(base + "sprites.png", sprite, op, where);
    entry += "  sprite {\n    image_path: " + quoted(inside + "/sprites.png") +
             "\n    single_image_dim: " + std::to_string(int64_t(options.sprites.dim(2))) +
             "\n    single_image_dim: " + std::to_string(int64_t(options.sprites.dim(1))) + "\n  }\n";
  }
  entries_[name] = entry + "}\n";
  std::string config;
  for (const auto& [which, text] : entries_) config += text;
  write_file((folder_.empty() ? "." : folder_) + "/projector_config.pbtxt", config, op, where);
}

}  // namespace rill::summary
