// GIF by giflib: frames are read line by line, so that a header cannot ask for more memory than is allowed, and put on
// one canvas as a viewer does (GIF89a, 23: disposal and transparency). Frames are written with the palettes of
// gif_palette.h.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "rill/data/images/codec.h"
#include "rill/data/images/gif_palette.h"
#include "rill/ops/option_checks.h"

namespace rill::images {
namespace {

class GifReader {
 public:
  explicit GifReader(const Decoding& d) : d_(d), rest_(d.bytes) {
    if (!rest_.starts_with("GIF8")) d_.fail_no_file();
    int error = 0;
    file_.reset(DGifOpen(this, read, &error));
    if (!file_) d_.fail_damaged(text_of(error));
    height_ = file_->SHeight, width_ = file_->SWidth;
    d_.require_size(height_, width_, 1, 1 << 14);  // three times the best compression ratio
    canvas_.assign(size_t(height_ * width_ * 4), 0);
  }

  // The canvas after each frame, RGBA one after the other.
  std::vector<uint8_t> frames(int64_t most, int64_t& count) {
    std::vector<uint8_t> all;
    for (count = 0; count < most && next_frame(); ++count) {
      d_.require_size(height_, width_, count + 1);
      all.insert(all.end(), canvas_.begin(), canvas_.end());
    }
    if (count == 0) d_.fail_damaged("there are no frames");
    return all;
  }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

 private:
  struct Close {
    void operator()(GifFileType* f) const { DGifCloseFile(f, nullptr); }
  };
  static int read(GifFileType* f, GifByteType* to, int n) {
    auto& self = *static_cast<GifReader*>(f->UserData);
    const size_t got = std::min(size_t(n), self.rest_.size());
    std::memcpy(to, self.rest_.data(), got);
    self.rest_.remove_prefix(got);
    return int(got);
  }
  static std::string_view text_of(int error) {
    const char* const text = GifErrorString(error);
    return text ? text : "";
  }
  void require(int status) {
    if (status == GIF_ERROR) d_.fail_damaged(text_of(file_->Error));
  }

  // Reads up to the end of a frame; false at the end of the file.
  bool next_frame() {
    GraphicsControlBlock control = {DISPOSAL_UNSPECIFIED, false, 0, NO_TRANSPARENT_COLOR};
    for (;;) {
      GifRecordType kind = UNDEFINED_RECORD_TYPE;
      require(DGifGetRecordType(file_.get(), &kind));
      if (kind == TERMINATE_RECORD_TYPE) return false;
      if (kind == IMAGE_DESC_RECORD_TYPE) break;
      if (kind != EXTENSION_RECORD_TYPE) continue;
      int code = 0;
      GifByteType* block = nullptr;
      require(DGifGetExtension(file_.get(), &code, &block));
      if (code == GRAPHICS_EXT_FUNC_CODE && block) DGifExtensionToGCB(block[0], block + 1, &control);
      while (block) require(DGifGetExtensionNext(file_.get(), &block));
    }
    dispose();
    require(DGifGetImageDesc(file_.get()));
    read_image(control);
    return true;
  }

  // Applies the last frame's disposal method before the next is drawn.
  void dispose() {
    if (disposal_ == DISPOSE_PREVIOUS) canvas_ = before_;
    if (disposal_ != DISPOSE_BACKGROUND) return;
    for (int64_t y = top_; y < std::min(top_ + rows_, height_); ++y)
      for (int64_t x = left_; x < std::min(left_ + columns_, width_); ++x)
        std::memset(&canvas_[size_t(y * width_ + x) * 4], 0, 4);
  }

  void read_image(const GraphicsControlBlock& control) {
    const GifImageDesc& image = file_->Image;
    const ColorMapObject* const colours = image.ColorMap ? image.ColorMap : file_->SColorMap;
    if (!colours) d_.fail_damaged("a frame has no palette");
    top_ = image.Top, left_ = image.Left, rows_ = image.Height, columns_ = image.Width;
    disposal_ = control.DisposalMode;
    if (disposal_ == DISPOSE_PREVIOUS) before_ = canvas_;
    std::vector<GifPixelType> line(size_t(std::max<int64_t>(columns_, 1)));
    // The rows of an interlaced image: 0, 8, ...; 4, 12, ...; 2, 6, ...; 1, 3, ...
    constexpr int64_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (image.Interlace ? 4 : 1); ++pass)
      for (int64_t y = image.Interlace ? first[pass] : 0; y < rows_; y += image.Interlace ? step[pass] : 1) {
        require(DGifGetLine(file_.get(), line.data(), int(columns_)));
        if (top_ + y < height_) draw(line, top_ + y, *colours, control.TransparentColor);
      }
  }
  void draw(const std::vector<GifPixelType>& line, int64_t y, const ColorMapObject& colours, int transparent) {
    for (int64_t x = 0; x < std::min(columns_, width_ - left_); ++x) {
      const int index = line[size_t(x)];
      if (index == transparent) continue;
      const GifColorType c = index < colours.ColorCount ? colours.Colors[index] : GifColorType{0, 0, 0};
      const uint8_t rgba[] = {c.Red, c.Green, c.Blue, 255};
      std::memcpy(&canvas_[size_t(y * width_ + left_ + x) * 4], rgba, 4);
    }
  }

  const Decoding& d_;
  std::string_view rest_;
  std::unique_ptr<GifFileType, Close> file_;
  int64_t height_ = 0, width_ = 0;
  std::vector<uint8_t> canvas_, before_;
  int64_t top_ = 0, left_ = 0, rows_ = 0, columns_ = 0;  // of the last frame
  int disposal_ = DISPOSAL_UNSPECIFIED;
};

Tensor read_frames(const Bytes& file, const DecodeOptions& o, int64_t most, const Where& where) {
  check_options("decode_gif", o, where);
  const Decoding d{"decode_gif", "GIF", file.view(), o, where};
  GifReader reader(d);
  int64_t count = 0;
  const std::vector<uint8_t> rgba = reader.frames(most, count);
  const int64_t h = reader.height(), w = reader.width();
  const Pixels out({count, h, w, o.channels == 4 ? 4 : 3}, DType::u8);
  if (o.channels == 4) std::memcpy(out.bytes(), rgba.data(), rgba.size());
  else
    for (size_t i = 0; i < rgba.size() / 4; ++i) std::memcpy(out.bytes() + 3 * i, &rgba[4 * i], 3);
  return finished(out.tensor, d);
}

// --- Writing -----------------------------------------------------------------------------------------------------------

struct GifWriter {
  std::string bytes;
  const Where& where;
  GifFileType* file = nullptr;

  ~GifWriter() {
    if (file) EGifCloseFile(file, nullptr);
  }
  static int write(GifFileType* f, const GifByteType* from, int n) {
    static_cast<GifWriter*>(f->UserData)->bytes.append(reinterpret_cast<const char*>(from), size_t(n));
    return n;
  }
  void require(bool ok) {
    if (!ok) fail("encode_gif", "giflib cannot write the image", where);
  }
  void open(int64_t h, int64_t w, bool loop) {
    file = EGifOpen(this, write, nullptr);
    require(file);
    EGifSetGifVersion(file, true);
    require(EGifPutScreenDesc(file, int(w), int(h), 8, 0, nullptr) != GIF_ERROR);
    if (!loop) return;
    const unsigned char for_ever[] = {1, 0, 0};
    require(EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE) != GIF_ERROR &&
            EGifPutExtensionBlock(file, 11, "NETSCAPE2.0") != GIF_ERROR &&
            EGifPutExtensionBlock(file, 3, for_ever) != GIF_ERROR && EGifPutExtensionTrailer(file) != GIF_ERROR);
  }
  void frame(const uint8_t* rgb, int64_t h, int64_t w, int milliseconds) {
    const IndexedImage image = indexed_image(rgb, size_t(h * w));
    const GraphicsControlBlock control = {DISPOSE_DO_NOT, false, milliseconds / 10, NO_TRANSPARENT_COLOR};
    GifByteType block[4];
    const size_t size = EGifGCBToExtension(&control, block);
    require(EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, int(size), block) != GIF_ERROR);
    const std::unique_ptr<ColorMapObject, void (*)(ColorMapObject*)> colours(GifMakeMapObject(256, nullptr),
                                                                             GifFreeMapObject);
    require(colours != nullptr);
    for (size_t i = 0; i < 256; ++i)
      colours->Colors[i] = {image.palette[i][0], image.palette[i][1], image.palette[i][2]};
    require(EGifPutImageDesc(file, 0, 0, int(w), int(h), false, colours.get()) != GIF_ERROR);
    std::vector<GifPixelType> pixels(image.indices.begin(), image.indices.end());
    for (int64_t y = 0; y < h; ++y) require(EGifPutLine(file, &pixels[size_t(y * w)], int(w)) != GIF_ERROR);
  }
  void close() {
    GifFileType* const f = std::exchange(file, nullptr);
    require(EGifCloseFile(f, nullptr) != GIF_ERROR);
  }
};

}  // namespace

Tensor decode_gif(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  return read_frames(file, o, INT64_MAX, where);
}
Tensor first_of_gif(const Bytes& file, const DecodeOptions& o, const Where& where) {
  const Tensor x = read_frames(file, o, 1, where);
  return x.reshape({x.shape()[1], x.shape()[2], x.shape()[3]});
}

Tensor encode_gif(const Tensor& image, const GifOptions& o, Where where) {
  const CallerScope caller(where);
  require_option(o.milliseconds >= 0 && o.milliseconds <= 655350, "encode_gif", "milliseconds", o.milliseconds,
                 "from 0 to 655350", where);
  Tensor x = pixels_to_write("encode_gif", image, {1, 3}, false, true, where);
  if (x.ndim() == 3) x = x.reshape({1, x.shape()[0], x.shape()[1], x.shape()[2]});
  const int64_t h = x.shape()[1], w = x.shape()[2];
  if (h > 65535 || w > 65535)
    fail("encode_gif", fmt::format("a GIF has at most 65535 pixels a side. got {}", to_string(x.spec())), where);
  const bool grey = x.shape()[3] == 1;
  const uint8_t* from = x.data<uint8_t>().data();
  std::vector<uint8_t> rgb(size_t(h * w * 3));
  GifWriter writer{{}, where};
  writer.open(h, w, o.loop && x.shape()[0] > 1);
  for (int64_t frame = 0; frame < x.shape()[0]; ++frame, from += h * w * (grey ? 1 : 3)) {
    for (size_t i = 0; grey && i < rgb.size(); ++i) rgb[i] = from[i / 3];
    writer.frame(grey ? rgb.data() : from, h, w, o.milliseconds);
  }
  writer.close();
  return file_of(std::move(writer.bytes));
}

}  // namespace rill::images
