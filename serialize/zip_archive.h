// Zip files by libzip: what .npz files and .rill files share. What a file says of itself is checked before memory is
// taken for it. In builds with the zip feature only.
#pragma once
#include <zip.h>

#include <memory>
#include <string>
#include <string_view>

#include "rill/serialize/files.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

// The bytes of a member that is written, piece by piece, as often as libzip asks for them.
class MemberBytes {
 public:
  virtual ~MemberBytes() = default;
  virtual uint64_t size() const = 0;
  virtual void start() = 0;
  // The next piece, which lives until the call after; false at the end.
  virtual bool next(std::string_view& piece) = 0;
};

// Writes a file of members. Equal members make equal files.
class ZipWriter {
 public:
  // `reject` throws what went wrong; it outlives this.
  ZipWriter(const std::string& part, const Callback<void(const std::string&)>& reject);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  // `name` is UTF-8 text without control characters, of at most 65535 bytes; is_name() says whether it is.
  void add(const std::string& name, std::unique_ptr<MemberBytes> bytes, bool compress);
  // Writes them; there is one at least, for libzip makes no file of none.
  void close();
  static bool is_name(const std::string& name);

 private:
  const Callback<void(const std::string&)>& reject_;
  zip_t* archive_ = nullptr;
};

// Reads the members of a file.
class ZipReader {
 public:
  // `expected`: "a zip file of .npy files", for the message.
  ZipReader(const FileReader& file, const std::string& expected);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  uint64_t count() const;

  class Member {
   public:
    const std::string& name() const { return name_; }
    uint64_t size() const { return size_; }
    [[noreturn]] void reject(const std::string& what) const;
    [[noreturn]] void reject(uint64_t at, const std::string& what) const;

    // Reads its bytes in order.
    class Stream {
     public:
      explicit Stream(const Member& m);
      ~Stream();
      Stream(const Stream&) = delete;
      void read(uint64_t at, void* to, uint64_t bytes);
      // After the last byte: libzip compares the checksum.
      void finish();

     private:
      const Member& member_;
      zip_file_t* in_;
    };
    // All of it.
    std::string read() const;

   private:
    friend class ZipReader;
    const FileReader* file_ = nullptr;
    zip_t* archive_ = nullptr;
    uint64_t index_ = 0, size_ = 0;
    std::string name_;
  };
  // Members are asked for in order, each once, so that those that lie over one another are found.
  Member next(uint64_t index);

 private:
  const FileReader& file_;
  zip_t* archive_ = nullptr;
  uint64_t packed_ = 0;  // the bytes of those before
};

}  // namespace rill

#pragma GCC visibility pop
